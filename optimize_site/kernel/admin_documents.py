"""Starting something in the admin from the document that its route and command take, and writing notes beside it."""

from typing import Any, ClassVar

from django import forms
from django.db.models import Model
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminTextareaWidget

from optimize_site.kernel.admin import ReadOnlyAdmin
from optimize_site.kernel.auth import Actor, actor_of
from optimize_site.kernel.documents import parse_document
from optimize_site.kernel.errors import OperationError


class DocumentAdmin(ReadOnlyAdmin):
    """Rows that only a submitted document makes; an operator may add one. `submit` makes it."""

    document_help: ClassVar[str]

    def submit(self, document: Any, *, actor: Actor) -> Model:
        """The row that the document reached. Raises OperationError with everything that is wrong with it."""
        raise NotImplementedError

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_operate_permission(request)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is not None:
            return super().get_form(request, obj, change, **kwargs)
        return _form(self, actor_of(request))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("document",) if obj is None else super().get_fields(request, obj)

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        """Submitted already."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Submitted already."""

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Model:
        row: Model = form.instance
        return row


class NotedAdmin(ReadOnlyAdmin):
    """Rows of which an operator changes nothing but the notes. `annotate` keeps them."""

    note_fields: ClassVar[tuple[str, ...]] = ("description",)

    def annotate(self, row: Any, notes: dict[str, str], *, actor: Actor) -> None:
        """Keep the notes, by their fields. Raises OperationError where one cannot be kept."""
        raise NotImplementedError

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_operate_permission(request)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [field.name for field in self.opts.fields if field.editable and field.name not in self.note_fields]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None or not self.has_change_permission(request, obj):
            return super().get_form(request, obj, change, **kwargs)
        return _note_form(super().get_form(request, obj, change, **kwargs), self, actor_of(request))

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        """The operation has kept the notes."""


def _note_form(base: Any, admin: NotedAdmin, actor: Actor) -> Any:
    """A form whose notes are kept as they are validated: a refusal is its error, in the operation's words."""

    class NoteForm(base):  # type: ignore[misc]
        def clean(self) -> dict[str, Any]:
            cleaned = super().clean() or {}
            if self.errors:
                return cleaned
            try:
                admin.annotate(self.instance, {name: cleaned[name] for name in admin.note_fields}, actor=actor)
            except OperationError as error:
                raise forms.ValidationError([error.detail, error.hint]) from error
            return cleaned

        def _post_clean(self) -> None:
            """The operation has checked and kept the notes; the form has nothing of its own to write."""

    return NoteForm


def _form(admin: DocumentAdmin, actor: Actor) -> type[forms.ModelForm]:  # type: ignore[type-arg]
    """A form whose document is submitted as it is validated: a refusal is its error, in the operation's words."""

    class DocumentForm(forms.ModelForm):  # type: ignore[type-arg]
        document = forms.CharField(label="Descriptor", widget=UnfoldAdminTextareaWidget(attrs={"rows": 24}),
                                   help_text=admin.document_help)

        class Meta:
            model = admin.model
            fields: tuple[str, ...] = ()

        def clean(self) -> dict[str, Any]:
            cleaned = super().clean() or {}
            try:
                self.instance = admin.submit(parse_document(cleaned.get("document", "")), actor=actor)
            except OperationError as error:
                raise forms.ValidationError([error.detail, *(f"{problem.path}: {problem.message}"
                                                             for problem in error.problems), error.hint]) from error
            return cleaned

        def _post_clean(self) -> None:
            """The operation has checked and saved the row; the form has nothing of its own to write onto it."""

    return DocumentForm
