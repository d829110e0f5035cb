"""The fields of documents are known before a verb does anything: read off the functions that make them."""

from types import CodeType, ModuleType

import pytest

from endpoints.render import trial_document
from optimize_site.kernel.document_fields import Unreadable, fields_of
from optimize_site.kernel.reference import our_commands
from registry.commands.models import TRIAL

CHANGING = {"post", "put", "patch", "delete", "send", "send_file"}
OURS = ("optimize_site", "registry", "datasets", "runs", "endpoints", "evaluations")
# They ask with a body, and change nothing.
READING = {"datasets validate", "graders run", "graders validate", "runs preview"}
VERBS = [(command, name, method) for command in our_commands() for name, method in sorted(command.verbs().items())]


def inner(row):
    return {"a": row}


def whole(row):
    more = {key: row[key] for key in ("b", "c")}
    return inner(row) | {"d": 1, **more} | ({} if row else {"e": 2})


def test_the_fields_are_those_that_the_function_writes_out():
    assert fields_of(whole, "f") == {"a", "b", "c", "d", "e", "f"}


def test_a_function_that_shows_no_fields_is_said_to_show_none():
    def odd(row):
        return dict(row)

    with pytest.raises(Unreadable, match="odd returns dict"):
        fields_of(odd)


@pytest.mark.parametrize(("command", "name", "method"), VERBS, ids=[f"{c.noun} {n}" for c, n, _ in VERBS])
def test_a_verb_that_changes_something_states_what_it_gives(command, name, method):
    gives, waited = method._gives
    assert fields_of(*gives) or not changes(method, type(command), set()) or f"{command.noun} {name}" in READING
    assert bool(fields_of(*waited)) == bool(gives)


def test_the_fields_of_a_trial_are_those_of_its_document():
    assert fields_of(trial_document) == set(TRIAL)


def changes(function, command: type, seen: set) -> bool:
    """Whether a verb's code, or that of ours which it calls, sends something to the box."""
    if function in seen or not getattr(function, "__module__", "").startswith(OURS):
        return False
    seen.add(function)
    names = set(names_in(function.__code__))
    if "client" in names and names & CHANGING:
        return True
    return any(changes(called, command, seen) for called in called_by(function, names, command))


def names_in(code: CodeType):
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from names_in(part)


def called_by(function, names: set[str], command: type):
    """The functions of these names: the command's own, the module's, those of modules that it imported."""
    for name in names:
        found = getattr(command, name, None) or function.__globals__.get(name)
        of_module = [getattr(found, other, None) for other in names] if isinstance(found, ModuleType) else []
        yield from (one for one in [found, *of_module] if hasattr(one, "__code__"))
