"""The grader grammar and json-label-match, without a database."""

import pytest

from evaluations.graders import find_object, match_labels, same_json
from optimize_site.kernel.graders import Grader, GraderNotAvailable, MalformedGrader, available_grader, parse_grader

EXPECTED = '{"team": "billing", "urgency": "high"}'


def test_the_same_object_scores_one_and_is_exact():
    verdict = match_labels('{"urgency":"high","team":"billing"}', EXPECTED)
    assert (verdict.score, verdict.is_exact) == (1.0, True)
    assert verdict.fields == {"team": True, "urgency": True}


@pytest.mark.parametrize("answer", [
    '```json\n{"team": "billing", "urgency": "high"}\n```',
    'Sure! Here it is:\n```\n{"team": "billing", "urgency": "high"}\n```\nAnything else?',
    'The labels are {"team": "billing", "urgency": "high"}. Let me know {if} I can help.',
    '<think>{"team": "sales"}</think>\n{"team": "billing", "urgency": "high"}',
    'Braces {like these} first, then {"team": "billing", "urgency": "high"}',
    '  \n{"team": "billing",\r\n "urgency": "high"}\n',
])
def test_fences_and_prose_around_the_json_are_tolerated(answer):
    assert match_labels(answer, EXPECTED).is_exact


def test_the_score_is_the_share_of_expected_fields_that_match():
    verdict = match_labels('{"team": "billing", "urgency": "low"}', EXPECTED)
    assert (verdict.score, verdict.is_exact) == (0.5, False)
    assert verdict.fields == {"team": True, "urgency": False}
    assert verdict.explanation == "Differs: urgency."


def test_a_field_that_nobody_asked_for_costs_exactness_but_no_score():
    verdict = match_labels('{"team": "billing", "urgency": "high", "mood": "sour"}', EXPECTED)
    assert (verdict.score, verdict.is_exact) == (1.0, False)


@pytest.mark.parametrize("answer", ["", "billing", "[1, 2]", '{"team": "billing"', '"{}"', '{"a": NaN}', "{" * 5000,
                                    '{"a":' * 5000])
def test_an_answer_without_an_object_is_a_zero(answer):
    verdict = match_labels(answer, EXPECTED)
    assert (verdict.score, verdict.is_exact, verdict.cause) == (0.0, False, "")
    assert verdict.fields == {"team": False, "urgency": False}


@pytest.mark.parametrize(("expected", "cause"), [
    ("billing", "expected_without_json"), ("", "expected_without_json"), ("[]", "expected_without_json"),
    ("{}", "expected_without_fields"),
])
def test_a_row_that_cannot_be_judged_is_unscored_and_never_zero(expected, cause):
    verdict = match_labels(EXPECTED, expected)
    assert verdict.score is None and verdict.is_exact is None
    assert verdict.cause == cause


@pytest.mark.parametrize(("one", "other", "same"), [
    (1, 1.0, True), (True, 1, False), (0, False, False), ("1", 1, False), (None, None, True), ([1, 2], [1, 2], True),
    ([1, 2], [2, 1], False), ({"a": 1}, {"a": 1}, True), ({"a": 1}, {"a": 1, "b": 2}, False), ("high", "High", False),
    ([True], [1], False), ("e\u0301", "é", False),
])
def test_values_are_compared_exactly(one, other, same):
    assert same_json(one, other) is same


def test_an_object_inside_an_object_is_compared_whole():
    verdict = match_labels('{"a": {"x": 1}, "b": 2}', '{"a": {"x": 1, "y": 2}, "b": 2}')
    assert verdict.fields == {"a": False, "b": True}


def test_the_first_object_of_the_prose_counts():
    assert find_object('{bad} {"a": 1} {"a": 2}') == {"a": 1}


@pytest.mark.parametrize(("text", "grader"), [
    ("json-label-match", Grader("json-label-match")),
    ("model:ns/judge:v2", Grader("model", "ns/judge:v2")),
    ("http:https://judge.example/score", Grader("http", "https://judge.example/score")),
    ("bundle:ns/scoring#reward", Grader("bundle", "ns/scoring", "reward", "compute_score")),
    ("bundle:abc#pkg.mod:judge", Grader("bundle", "abc", "pkg.mod", "judge")),
])
def test_every_grader_form_parses(text, grader):
    assert parse_grader(text) == grader


@pytest.mark.parametrize("text", ["", "exact", "model:", "bundle:ns/x", "bundle:#m", "ftp:x", "JSON-LABEL-MATCH"])
def test_anything_else_is_refused_with_the_forms_there_are(text):
    with pytest.raises(MalformedGrader) as refused:
        parse_grader(text)
    assert "json-label-match" in refused.value.hint


@pytest.mark.parametrize("text", ["model:ns/judge", "http:https://judge.example", "bundle:ns/scoring#reward"])
def test_graders_that_do_not_work_yet_are_refused_by_name(text):
    with pytest.raises(GraderNotAvailable) as refused:
        available_grader(text)
    assert text in refused.value.detail
