from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("evaluations", "0005_long_graders")]

    operations = [
        migrations.AddField(
            model_name="prediction",
            name="finish",
            field=models.CharField(blank=True, default="", max_length=20),
            preserve_default=False,
        ),
    ]
