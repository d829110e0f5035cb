"""Notes on namespaces."""

from django.db import transaction

from optimize_site.kernel import events
from optimize_site.kernel.auth import Actor
from registry.models import Namespace


@transaction.atomic
def annotate_namespace(namespace: Namespace, *, description: str | None, actor: Actor) -> Namespace:
    """Set the note on a namespace; an empty text clears it, None leaves it."""
    actor.require("operator")
    if description is not None and description != namespace.description:
        Namespace.objects.filter(pk=namespace.pk).update(description=description)
        namespace.description = description
        events.record("namespace", namespace.pk, "namespace.annotated", actor=actor, data={"description": description})
    return namespace
