import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('datasets', '0002_uploads_and_analyses'),
        ('registry', '0002_parents'),
    ]

    operations = [
        migrations.CreateModel(
            name='OwnFiles',
            fields=[
                ('version', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='registry.version')),
                ('num_blank_lines', models.BigIntegerField(default=0)),
                ('size_bytes', models.BigIntegerField()),
                ('shards', models.JSONField(default=list)),
                ('findings', models.JSONField(default=list)),
            ],
            options={
                'verbose_name_plural': 'own files',
            },
        ),
    ]
