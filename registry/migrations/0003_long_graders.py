"""Graders with parameters are longer than names."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("registry", "0002_parents")]

    operations = [
        migrations.AlterField("workload", "grader", models.CharField(max_length=2000, blank=True)),
    ]
