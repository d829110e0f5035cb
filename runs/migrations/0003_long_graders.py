"""Graders with parameters are longer than names."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("runs", "0002_lifecycle")]

    operations = [
        migrations.AlterField("run", "grader", models.CharField(max_length=2000, blank=True)),
    ]
