"""The form of a new run that begins with a descriptor: what it sends, nothing changed in it, is that descriptor."""

from typing import Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimize_site.kernel.errors import InvalidInput, OperationError
from optimize_site.kernel.graders import available_grader, parse_target, rules
from runs import forms
from runs.descriptor import REINFORCEMENT, RewardTerm, RunDescriptor, parse_descriptor
from runs.reward_form import TermForm, terms_of
from runs.wording import arms_of, fields_of, part_of

METHODS = ("sft", "dpo", "grpo", "gspo")
LEAVES = {".".join(path): info for path, info in fields_of(RunDescriptor)
          if part_of(info.annotation) is None and "[]" not in ".".join(path)}
ODD = st.sampled_from(["plain", " edges ", "two\nlines", "two\r\nlines", "\nfirst", "1", "1e-4", "true", "a\u2028b",
                       ""])
GRADERS = [*(rule["example"]["grader"] for rule in rules().documents()), "exact", 'contains:{"texts":["a\\nb","c"]}',
           'contains:{"texts":["a"," "]}', 'regex:{"pattern":"a\\nb"}', 'regex:{"pattern":" a "}', "nothing-like-it",
           "regex:{", "model:x/judge:v1", "http:https://scores.example/a", "bundle:b#m", "bundle:b#m:f"]


# As a browser does ---------------------------------------------------------------------------------------------------


def typed(text, is_long):
    """What an input sends of the text that stands in it."""
    if not is_long:
        return text.replace("\r", "").replace("\n", "")
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain.removeprefix("\n").replace("\n", "\r\n")


def sent_by(document):
    """What the form sends once it shows a descriptor: every input and select, and boxes that are ticked."""
    values, terms = forms.values_of(document), terms_of(forms.reward_of(document))
    method = forms.method_in(values)
    filled = {forms.REST: typed(values.get(forms.REST, ""), True)}
    for field in forms.fields_of_method(method):
        value = values.get(field.path, "")
        filled[field.path] = typed(value, field.is_long) if not field.choices or value in field.choices else ""
    filled["config.method"] = method
    for number, term in enumerate(terms if method in REINFORCEMENT else []):
        filled |= sent_of_term(number, term)
    return filled


def sent_of_term(number, term: TermForm):
    found = {f"term.{number}.scorer": term.scorer, f"term.{number}.weight": typed(term.weight, False)}
    for entry in term.fields(number):
        kind, value = entry.parameter["kind"], entry.value
        if kind == "choice":
            found[entry.key] = value if value in entry.parameter["choices"] else entry.parameter["default"]
        elif kind != "flag" or value:
            found[entry.key] = "on" if kind == "flag" else typed(value, entry.is_long)
    return found


def one_text(term):
    """A term with the one text of its rule."""
    try:
        is_rule = term.grader and parse_target(term.grader) is None
        return term.model_copy(update={"grader": available_grader(term.grader)}) if is_rule else term
    except OperationError:
        return term


def read(document):
    """What a descriptor states, without the groups that are empty, a stated sft as none, a rule by its one text."""
    descriptor = parse_descriptor(document).descriptor
    reward = descriptor.config and descriptor.config.reward
    found = descriptor.model_dump(exclude_none=True)
    if reward and reward.terms:
        found["config"]["reward"]["terms"] = [one_text(term).model_dump(exclude_none=True) for term in reward.terms]
    return found | {"config": {"method": "sft"} | found.get("config", {})}


def comes_back(document):
    assert parse_descriptor(document).problems == ()
    assert read(forms.document_of(sent_by(document))) == read(document)


# What a descriptor may state -----------------------------------------------------------------------------------------


def values_for(info):
    arms = arms_of(info.annotation)
    choices = [value for arm in arms if get_origin(arm) is Literal for value in get_args(arm)]
    if choices:
        return st.sampled_from(choices)
    if bool in arms:
        return st.booleans()
    if int in arms:
        return st.integers(0, 2**31 - 1)
    if float in arms:
        return st.sampled_from([0, 1, 0.0, 0.5, 1e-5, 0.1 + 0.2])
    if str in arms:
        return ODD | st.text(max_size=20)
    return st.dictionaries(st.sampled_from("ab"), st.none() | st.integers() | ODD, max_size=2)


def stated(values, method, terms=None):
    document = {"kind": "run", "config": {"method": method}}
    for path, value in values.items():
        node = document
        *groups, name = path.split(".")
        for group in groups:
            node = node.setdefault(group, {})
        node[name] = value
    if terms is not None:
        document["config"].setdefault("reward", {})["terms"] = terms
    return document


FREE = [path for path in LEAVES if path not in {"kind", "config.method"}]
TERM = st.fixed_dictionaries({"kind": st.sampled_from(["rule", "model", "grader"])}, optional={
    "weight": st.none() | st.integers(-3, 3) | st.floats(-1e6, 1e6, allow_nan=False),
    "bundle": ODD.filter(bool), "module": ODD.filter(bool), "function": ODD.filter(bool), "model": ODD.filter(bool),
    "instructions": st.none() | ODD, "grader": st.sampled_from(GRADERS)})


# Tests ---------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R028", "R029")
@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
def test_every_field_of_every_method_comes_back_from_the_form_as_it_was(method, data):
    paths = data.draw(st.lists(st.sampled_from(FREE), unique=True, max_size=8))
    drawn = {path: data.draw(values_for(LEAVES[path]), path) for path in paths}
    comes_back(stated({path: value for path, value in drawn.items() if is_read(path, value)}, method))


def is_read(path, value):
    return not parse_descriptor(stated({path: value}, "sft")).problems


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", FREE)
def test_each_field_alone_comes_back(method, path):
    samples = {"config.engineSettings.settings": {"a": None}}
    arms = arms_of(LEAVES[path].annotation)
    choice = next((get_args(arm)[-1] for arm in arms if get_origin(arm) is Literal), None)
    value = samples.get(path, choice or (True if bool in arms else 0 if {int, float} & set(arms) else "x"))
    comes_back(stated({path: value}, method))


@pytest.mark.requirement("R029")
@given(terms=st.lists(TERM, min_size=1, max_size=3))
def test_every_term_of_a_reward_comes_back_from_the_form_as_it_was(terms):
    assert set().union(*terms) <= {str(info.alias) for info in RewardTerm.model_fields.values()}
    comes_back(stated({}, "grpo", terms))


def test_what_no_input_holds_stands_as_it_is_written_and_stays_through_a_change_of_the_others():
    document = stated({"execution.engine": "trl", "execution.gpus": 2, "config.loss.explicitLossMaskColumn": "mask",
                       "grader": "exact"}, "sft")
    filled = sent_by(document)
    assert (filled["execution.gpus"], filled["grader"]) == ("2", "exact")
    assert '"engine": "trl"' in filled["rest"] and '"explicitLossMaskColumn": "mask"' in filled["rest"]
    changed = forms.document_of(filled | {"execution.gpus": "1"})
    assert changed["execution"] == {"gpus": 1, "engine": "trl"}


def test_a_field_that_stands_in_its_input_and_beside_is_refused_by_name():
    with pytest.raises(InvalidInput, match=r"execution\.gpus") as refused:
        forms.document_of({"execution.gpus": "2", "rest": "execution: {gpus: 1}"})
    assert refused.value.code == "stated_twice"
    with pytest.raises(InvalidInput, match="weight"):
        TermForm("written", "2", {"term": "kind: grader\nweight: 1"}).document()
    with pytest.raises(InvalidInput):
        forms.document_of({"rest": "- 1"})
