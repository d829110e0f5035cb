"""Namespaces: their notes, and taking those whose work is finished out of the lists."""

from django.db import transaction

from optimize_site.kernel import clock, events
from optimize_site.kernel.auth import Actor
from registry.errors import NamespaceArchived
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


@transaction.atomic
def archive_namespace(namespace: Namespace, *, actor: Actor) -> Namespace:
    """Take a namespace and what it holds out of the lists, and let no version be added to it.

    References into it still resolve, its aliases still move, notes are still written. Archiving twice changes nothing.
    """
    actor.require("operator")
    locked = Namespace.objects.select_for_update().get(pk=namespace.pk)
    if locked.archived_at is None:
        locked.archived_at = clock.now()
        locked.save(update_fields=["archived_at"])
        events.record("namespace", locked.pk, "namespace.archived", actor=actor)
    return locked


@transaction.atomic
def unarchive_namespace(namespace: Namespace, *, actor: Actor) -> Namespace:
    """Undo `archive_namespace`. An open namespace stays as it is."""
    actor.require("operator")
    locked = Namespace.objects.select_for_update().get(pk=namespace.pk)
    if locked.archived_at is not None:
        locked.archived_at = None
        locked.save(update_fields=["archived_at"])
        events.record("namespace", locked.pk, "namespace.unarchived", actor=actor)
    return locked


def refuse_archived(namespace: Namespace | None) -> None:
    """Raises NamespaceArchived, with the command that brings it back, where nothing may be registered in it."""
    if namespace is not None and namespace.archived_at is not None:
        raise NamespaceArchived(f"The namespace {namespace.pk} is archived and takes no new version.",
                                hint=f"`./optimize registry namespaces unarchive {namespace.pk}` brings it back.")


def check_open(name: str) -> None:
    """Raises NamespaceArchived where the namespace of that name is archived: for asking before bytes are sent."""
    refuse_archived(Namespace.objects.filter(pk=name).first())
