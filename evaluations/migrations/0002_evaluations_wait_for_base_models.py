"""An evaluation of a base model may wait for the preparation that registers it."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):

    dependencies = [
        ("evaluations", "0001_initial"),
        ("registry", "0001_initial"),
    ]

    operations = [
        migrations.AlterField(
            model_name="evaluation", name="model",
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name="evaluations",
                                    to="registry.version")),
        migrations.AddConstraint(
            model_name="evaluation",
            constraint=models.CheckConstraint(
                name="evaluation_has_a_model_once_it_runs",
                condition=Q(model__isnull=False) | Q(phase__in=["AWAITING_BASE_MODEL", "FAILED", "CANCELLED"]))),
    ]
