"""What a workload's judge is told, where the workload states it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("registry", "0003_long_graders")]

    operations = [
        migrations.AddField("workload", "grader_instructions", models.TextField(blank=True, default=""),
                            preserve_default=False),
    ]
