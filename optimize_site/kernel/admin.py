"""The box's rows in the admin. Rules live in operations, so every page here reads, and every button calls one."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.auth import admin as auth_admin  # noqa: F401 - registers Group, which is taken out below
from django.contrib.auth.models import Group
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from unfold.admin import ModelAdmin

from optimize_site.kernel import accounts
from optimize_site.kernel.auth import Actor, actor_of
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.ids import SHOWN
from optimize_site.kernel.models import Attempt, Blob, Device, Event, Lease, Token, User


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]
    """A model that everybody with an account may look at, and that only operations change."""

    list_per_page = 50
    show_full_result_count = False
    least_role: ClassVar[str] = "viewer"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.is_authenticated and actor_of(request).may(self.least_role)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """For actions that declare `permissions=["operate"]`."""
        return request.user.is_authenticated and actor_of(request).may("operator")

    def has_administer_permission(self, request: HttpRequest) -> bool:
        """For actions that declare `permissions=["administer"]`."""
        return request.user.is_authenticated and actor_of(request).may("admin")

    @admin.display(description="ID", ordering="pk")
    def shown_id(self, row: Model) -> str:
        """The beginning of the ID, whole in the title."""
        return format_html('<span title="{}">{}</span>', row.pk, str(row.pk)[:SHOWN])


def carry_out(request: HttpRequest, rows: Iterable[Any], operation: Callable[[Any, Actor], str]) -> None:
    """Call an operation for each chosen row; say what came of it, in the operation's own words where it refused."""
    actor = actor_of(request)
    for row in rows:
        try:
            messages.success(request, operation(row, actor))
        except OperationError as error:
            messages.error(request, " ".join(part for part in (error.detail, error.hint) if part))


def to_the_sign_in_page(request: HttpRequest, extra_context: Any = None) -> HttpResponse:
    """The admin has no door of its own: one page signs people in, and slows guessing down."""
    return redirect(f"{reverse('box:sign-in')}?next={reverse('admin:index')}")


admin.site.login = to_the_sign_in_page  # type: ignore[assignment]
admin.site.unregister(Group)  # roles stand in its place


@admin.register(User)
class UserAdmin(ReadOnlyAdmin):
    """Accounts. A new one's password is shown once."""

    least_role = "admin"
    list_display = ("username", "role", "is_active", "last_login", "date_joined")
    list_filter = ("role", "is_active")
    search_fields = ("username",)
    fields = ("username", "role", "is_active", "last_login", "date_joined")
    actions = ("make_viewer", "make_operator", "make_admin", "reset_password", "shut_out", "let_in")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_administer_permission(request)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else ("username", "role")

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        made, password = accounts.create_user(obj.username, obj.role, actor=actor_of(request))
        obj.pk = made.pk
        obj._state.adding = False
        messages.warning(request, f"The password of {made.username} is {password}; it is not shown again.")

    @admin.action(description="Make viewer", permissions=["administer"])
    def make_viewer(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        self._set_role(request, rows, "viewer")

    @admin.action(description="Make operator", permissions=["administer"])
    def make_operator(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        self._set_role(request, rows, "operator")

    @admin.action(description="Make admin", permissions=["administer"])
    def make_admin(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        self._set_role(request, rows, "admin")

    def _set_role(self, request: HttpRequest, rows: QuerySet[User], role: str) -> None:
        def operation(user: User, actor: Actor) -> str:
            accounts.set_role(user.username, role, actor=actor)
            return f"{user.username} is {role} now."

        carry_out(request, rows, operation)

    @admin.action(description="Reset password", permissions=["administer"])
    def reset_password(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        def operation(user: User, actor: Actor) -> str:
            password = accounts.reset_password(user.username, actor=actor)
            return f"The password of {user.username} is {password}; it is not shown again."

        carry_out(request, rows, operation)

    @admin.action(description="Shut out", permissions=["administer"])
    def shut_out(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        self._set_active(request, rows, False)

    @admin.action(description="Let in again", permissions=["administer"])
    def let_in(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        self._set_active(request, rows, True)

    def _set_active(self, request: HttpRequest, rows: QuerySet[User], active: bool) -> None:
        def operation(user: User, actor: Actor) -> str:
            accounts.set_active(user.username, active, actor=actor)
            return f"{user.username} is {'let in again' if active else 'shut out'}."

        carry_out(request, rows, operation)


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    """Bearer tokens; their text is never kept."""

    least_role = "admin"
    list_display = ("name", "user", "shown", "created_at", "last_used_at", "revoked_at")
    list_filter = ("user",)
    search_fields = ("name", "shown", "user__username")
    fields = ("name", "user", "shown", "created_by", "created_at", "last_used_at", "revoked_at")
    actions = ("revoke",)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_administer_permission(request)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else ("name", "user")

    def save_model(self, request: HttpRequest, obj: Token, form: Any, change: bool) -> None:
        made, text = accounts.issue_token(obj.name, obj.user.username, actor=actor_of(request))
        obj.pk = made.pk
        obj._state.adding = False
        messages.warning(request, f"The token is {text}; it is not shown again.")

    @admin.action(description="Revoke", permissions=["administer"])
    def revoke(self, request: HttpRequest, rows: QuerySet[Token]) -> None:
        def operation(token: Token, actor: Actor) -> str:
            accounts.revoke_token(token.shown, actor=actor)
            return f"The token {token.name} is revoked."

        carry_out(request, rows, operation)


@admin.register(Device)
class DeviceAdmin(ReadOnlyAdmin):
    """What jobs run on."""

    list_display = ("uuid", "name", "profile", "kind", "slots", "is_present", "seen_at", "node")
    list_filter = ("profile", "is_present", "node")
    search_fields = ("uuid", "name")


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    """Who holds, and held, which slot."""

    list_display = ("device", "slot", "holder_kind", "holder", "token", "acquired_at", "expires_at", "released_at")
    list_filter = ("holder_kind", ("released_at", admin.EmptyFieldListFilter), "device")
    search_fields = ("holder_id",)

    @admin.display(description="Holder")
    def holder(self, row: Lease) -> str:
        return row.holder_id[:SHOWN]


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    """Each try at a piece of work."""

    list_display = ("shown_id", "holder_kind", "holder", "number", "outcome", "first_step", "last_step", "started_at",
                    "ended_at")
    list_filter = ("holder_kind", "outcome")
    search_fields = ("id", "holder_id")

    @admin.display(description="Holder")
    def holder(self, row: Attempt) -> str:
        return row.holder_id[:SHOWN]


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """The audit trail."""

    list_display = ("at", "type", "subject", "actor", "reason")
    list_filter = ("subject_kind", "type", "actor")
    search_fields = ("subject_id", "actor", "reason")
    date_hierarchy = "at"
    ordering = ("-id",)

    @admin.display(description="Subject")
    def subject(self, row: Event) -> str:
        return f"{row.subject_kind} {row.subject_id[:SHOWN]}"


@admin.register(Blob)
class BlobAdmin(ReadOnlyAdmin):
    """Bytes kept once."""

    list_display = ("shown_id", "size_bytes", "created_at")
    search_fields = ("sha256",)
    ordering = ("-created_at",)
