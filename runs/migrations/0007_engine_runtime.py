from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0006_retention_due'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='engine_runtime',
            field=models.JSONField(null=True),
        ),
    ]
