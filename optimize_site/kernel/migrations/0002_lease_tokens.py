"""The sequence that fencing tokens come from: every lease and every adoption takes the next number."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("kernel", "0001_initial")]
    operations = [migrations.RunSQL("CREATE SEQUENCE lease_tokens", "DROP SEQUENCE lease_tokens")]
