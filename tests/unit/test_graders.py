"""The grader grammar and the rule graders, without a database."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluations.graders import RULES, BadGrader, judge_of, parse_reference
from evaluations.graders.json_label_match import match_labels
from evaluations.graders.json_values import find_object, find_value, same_json
from evaluations.graders.numeric import find_number
from evaluations.graders.patterns import Patience, TooSlow, compile_pattern
from evaluations.report import Graded, build_report
from evaluations.rules import example_reference
from optimize_site.kernel import graders
from optimize_site.kernel.graders import (
    LONGEST_INSTRUCTIONS,
    GraderNotAvailable,
    InstructionsTooLong,
    MalformedGrader,
    Target,
    available_grader,
    check_instructions,
    parse_target,
)

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


def test_what_nests_very_deep_is_judged_without_an_end_of_the_stack():
    deep = '{"a":' * 300 + "1" + "}" * 300
    assert match_labels(deep, EXPECTED).score == 0.0
    assert match_labels(deep, deep).score in {0.0, 1.0}


@pytest.mark.parametrize(("text", "target"), [
    ("model:ns/judge:v2", Target("model", "ns/judge:v2")),
    ("http:https://judge.example/score", Target("http", "https://judge.example/score")),
    ("bundle:ns/scoring#reward", Target("bundle", "ns/scoring", "reward", "compute_score")),
    ("bundle:abc#pkg.mod:judge", Target("bundle", "abc", "pkg.mod", "judge")),
    ("json-label-match", None), ('exact:{"ignoreCase":true}', None),
])
def test_every_form_that_names_a_target_parses(text, target):
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["", "model:", "bundle:ns/x", "bundle:#m", "ftp:x", "JSON-LABEL-MATCH", "exact:",
                                  "exact: {", "exact:[]", "exact:NaN", 'exact:{"ignoreCase":1}', 'exact:{"a":1,"a":1}',
                                  "exact:" + "[" * 5000, "exact\0", "exact:" + " " * 9000])
def test_anything_else_is_refused_with_what_to_write(text):
    with pytest.raises(MalformedGrader) as refused:
        available_grader(text)
    assert refused.value.detail.endswith(".") and refused.value.hint


@pytest.mark.parametrize("text", ["model:ns/judge", "http:https://judge.example", "bundle:ns/scoring#reward"])
def test_graders_of_a_kind_that_no_app_knows_are_refused_by_name(text, monkeypatch):
    monkeypatch.setattr(graders, "_targets", {})
    with pytest.raises(GraderNotAvailable) as refused:
        available_grader(text)
    assert text in refused.value.detail


def written(name, **parameters):
    return f"{name}:{json.dumps(parameters)}" if parameters else name


def score(reference, answer, expected=""):
    return judge_of(reference)(answer, expected).score


def refusal(reference):
    with pytest.raises(BadGrader) as refused:
        parse_reference(reference)
    return refused.value


def test_a_grader_has_one_text_however_it_is_written():
    one = available_grader(' numeric:{ "relative": 1e-1, "which": "last", "absolute": 2.0 } ')
    assert one == 'numeric:{"absolute":2,"relative":0.1}'
    assert available_grader("numeric:{}") == available_grader('numeric:{"absolute":0}') == "numeric"
    nested = written("weighted", terms=[{"weight": 1.0, "grader": 'exact:{"ignoreCase":false}'}])
    assert available_grader(nested) == 'weighted:{"terms":[{"grader":"exact"}]}'


@pytest.mark.parametrize("rule", RULES.values(), ids=str)
def test_every_grader_judges_its_own_example_and_reads_its_own_text(rule):
    reference = example_reference(rule)
    verdict = judge_of(reference)(rule.example.answer, rule.example.expected)
    assert verdict.score is not None and 0 <= verdict.score <= 1
    assert available_grader(reference) == reference


@pytest.mark.parametrize("rule", RULES.values(), ids=str)
@settings(deadline=None, max_examples=60)
@given(answer=st.text(max_size=80), expected=st.text(max_size=80))
def test_whatever_is_said_a_score_lies_between_0_and_1_or_has_a_cause(rule, answer, expected):
    verdict = judge_of(example_reference(rule))(answer, expected)
    if verdict.score is None:
        assert verdict.cause and len(verdict.cause) <= 40 and verdict.explanation
    else:
        assert 0 <= verdict.score <= 1 and not verdict.cause and verdict.is_exact is not None
        assert not verdict.is_exact or verdict.score == 1


@pytest.mark.parametrize(("answer", "worth"), [
    ("She sells 9 eggs.\n#### 18", 1), ("#### 18\n\n", 1), ("####18", 1), ("#### -1,200.5", 1), ("#### $18.00", 1),
    ("#### 18 %.", 1), ("#### .5", 1), ("<think>#### 1</think>\n#### 18", 1), ("#### 18\nThat is it.", 0.5),
    ("#### 9\n#### 18", 0.5), ("It is 18.", 0), ("18 ####", 0), ("so #### 18", 0), ("####", 0), ("#### eighteen", 0),
    ("#### 18 eggs", 0), ("#### 1 8", 0), ("", 0)])
def test_an_answer_line_is_a_number_behind_the_mark_at_the_end_and_once(answer, worth):
    assert score("answer-line", answer, "") == worth
    assert score("answer-line", answer, "#### 4") == worth, "what was expected does not count"


def test_an_answer_line_has_a_mark_of_its_own_and_may_hold_any_text():
    label = written("answer-line", mark="Answer:", value="text")
    assert [score(label, answer) for answer in ("Because.\nAnswer: billing", "Answer:", "billing")] == [1, 0, 0]
    assert "goes on behind" in judge_of(label)("Answer: billing\nor so", "").explanation
    assert "must be number or text" in refusal(written("answer-line", value="word")).detail
    assert "is white space" in refusal(written("answer-line", mark=" ")).detail


@pytest.mark.parametrize("name", ["exact", "contains", "numeric", "json-label-match"])
def test_without_an_expected_answer_to_compare_with_a_row_is_unscored_and_never_zero(name):
    verdict = judge_of(name)("billing", " ")
    assert verdict.score is None and verdict.cause.startswith("expected_")


@pytest.mark.parametrize(("parameters", "answer", "wanted"), [
    ({}, "billing\n", 1), ({}, "Billing", 0), ({"ignoreCase": True}, "BILLING", 1), ({}, "<think>x</think> billing", 1),
    ({}, "billing.", 0), ({}, "", 0),
])
def test_exact_compares_character_for_character(parameters, answer, wanted):
    assert score(written("exact", **parameters), answer, "billing") == wanted


def test_exact_says_where_the_answer_differs():
    assert "from character 2 on" in judge_of("exact")("bxlling", "billing").explanation
    assert score('exact:{"ignoreSpace":true}', "a\n  b", "a b") == 1


def test_contains_counts_each_text_or_is_content_with_any():
    texts = ["refund", "5 days"]
    assert score(written("contains", texts=texts), "a refund") == 0.5
    assert score(written("contains", texts=texts, match="any"), "a refund") == 1
    assert score(written("contains", texts=texts, match="any"), "nothing") == 0
    assert score("contains", "it is billing, I think", "billing") == 1


def test_regex_is_found_anywhere_or_matches_all():
    pattern = r"ticket-\d{4}"
    assert score(written("regex", pattern=pattern), "see ticket-0042") == 1
    assert score(written("regex", pattern=pattern, match="full"), "see ticket-0042") == 0
    assert score(written("regex", pattern=pattern, match="full"), " ticket-0042\n") == 1
    assert score(written("regex", pattern="TICKET", ignoreCase=True), "ticket") == 1


def test_a_pattern_that_takes_for_ever_leaves_the_row_unscored(monkeypatch):
    monkeypatch.setattr("evaluations.graders.regular_expression.Patience", lambda: Patience(0.02))
    verdict = judge_of(written("regex", pattern="(a|aa)+$"))("a" * 60 + "!", "")
    assert (verdict.score, verdict.cause) == (None, "pattern_too_slow")
    with pytest.raises(TooSlow):
        Patience(0.02).search(compile_pattern("(.*?,){30}P"), "1," * 40)


@pytest.mark.parametrize("pattern", ["((a{1000}){1000}){1000}", "a{1000000000}", "(" * 480 + ")" * 480, "(", "a" * 1001,
                                     "(?:a?){5000}a{6000}"])
def test_a_pattern_that_does_not_parse_or_explodes_is_refused(pattern):
    assert "pattern" in refusal(written("regex", pattern=pattern)).detail


@pytest.mark.parametrize(("text", "number"), [
    ("The total is $1,234.50.", "1234.50"), ("#### 42", "42"), ("1, 2, 3", "3"), ("10-5", "5"), ("−5", "-5"),
    ("v2", None), ("1e3", "1e3"), (".5", ".5"), ("3.14.15", "3.14"), ("9" * 300, None), ("none", None),
    ("1,234,56", "56"), ("1e99999", "1"),
])
def test_the_last_number_of_a_text_counts(text, number):
    found = find_number(text, "last")
    assert found == (None if number is None else type(found)(number))


@settings(deadline=None)
@given(st.decimals(min_value=-10**12, max_value=10**12, places=6))
def test_a_number_written_out_is_found_again(number):
    assert find_number(f"It is {number:,f} euros", "last") == number


def test_numbers_match_within_the_larger_tolerance():
    assert score("numeric", "0.30", "0.3") == 1
    assert score('numeric:{"absolute":0.1}', "0.4", "0.3") == 1
    assert score('numeric:{"absolute":0.1}', "0.41", "0.3") == 0
    assert score('numeric:{"relative":0.01}', "99", "100") == 1
    assert score('numeric:{"which":"first"}', "3 of 4", "3") == 1
    assert score("numeric", "1e9999", "-1e9999") == 0


SCHEMA = {"type": "object", "required": ["team"], "additionalProperties": False,
          "properties": {"team": {"enum": ["billing", "cards"]}, "tags": {"$ref": "#/$defs/tags"}},
          "$defs": {"tags": {"type": "array", "uniqueItems": True, "items": {"pattern": "^[a-z]+$"}}}}


@pytest.mark.parametrize(("answer", "wanted", "said"), [
    ('```json\n{"team": "billing", "tags": ["a", "b"]}\n```', 1, ""), ('{"team": "sales"}', 0, "team"),
    ('{"team": "cards", "mood": 1}', 0, "not asked for"), ('{"team": "cards", "tags": ["a", "a"]}', 0, "twice"),
    ('{"team": "cards", "tags": ["A"]}', 0, "does not match"), ("cards", 0, "no JSON"), ("[]", 0, "object"),
])
def test_an_answer_is_held_to_a_schema(answer, wanted, said):
    verdict = judge_of(written("json-schema", schema=SCHEMA))(answer, "")
    assert verdict.score == wanted and said in verdict.explanation


def test_equal_entries_are_equal_as_json_has_it():
    unique = written("json-schema", schema={"uniqueItems": True})
    assert score(unique, "[1, true, [1], [true], {}]") == 1
    assert score(unique, "[1, 1.0]") == 0


@pytest.mark.parametrize(("schema", "said"), [
    ({"$ref": "http://169.254.169.254/latest"}, "only to itself"), ({"$ref": "file:///etc/passwd"}, "only to itself"),
    ({"$ref": "#/$defs/nothing"}, "has nothing at"), ({"type": "frog"}, "no JSON schema at type"),
    ({"pattern": "("}, "does not parse"), ({"patternProperties": {"a{99999}": {}}}, "repeats too much"),
    ({"$schema": "http://json-schema.org/draft-07/schema"}, "draft 2020-12 is"),
    ({"unevaluatedProperties": False, "patternProperties": {"a": {}}}, "held to a time"),
    ({"properties": {"a": {"$id": "http://x/y"}}}, "only to itself"),
])
def test_a_schema_that_cannot_be_held_to_is_refused(schema, said):
    assert said in refusal(written("json-schema", schema=schema)).detail


@pytest.mark.parametrize("schema", [
    {"$ref": "#"},
    {"$ref": "#/$defs/a0", "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(20)}
     | {"a20": {"type": "string"}}},
], ids=["endless", "doubling"])
def test_a_schema_that_costs_too_much_leaves_the_row_unscored(schema, monkeypatch):
    monkeypatch.setattr("evaluations.graders.json_schema.MAX_STEPS", 2000)
    verdict = judge_of(written("json-schema", schema=schema))("1", "")
    assert (verdict.score, verdict.cause) == (None, "schema_too_costly")


def test_any_json_counts_for_a_schema_but_only_objects_and_lists_in_prose():
    assert (find_value("null"), find_value("Here: [1] and 2")) == (None, [1])
    assert score('json-schema:{"schema":{"type":"null"}}', "null") == 1


def test_several_graders_count_by_their_weights():
    both = written("weighted", terms=[{"grader": "exact"}, {"grader": "numeric", "weight": 3, "name": "value"}])
    verdict = judge_of(both)("It is 4", "4")
    assert (verdict.score, verdict.is_exact, verdict.fields) == (0.75, False, {"exact": False, "value": True})
    assert "value: 1" in verdict.explanation


def test_a_term_that_cannot_judge_leaves_the_row_unscored():
    both = written("weighted", terms=[{"grader": "exact"}, {"grader": "numeric"}])
    verdict = judge_of(both)("four", "four")
    assert (verdict.score, verdict.cause) == (None, "expected_without_number")
    assert verdict.explanation.startswith("numeric:")


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.floats(0.001, 1e6)), min_size=1, max_size=16))
def test_a_weighted_score_is_the_weighted_mean(terms):
    graders = [{"grader": "exact" if right else 'regex:{"pattern":"z"}', "weight": weight} for right, weight in terms]
    wanted = sum(weight for right, weight in terms if right) / sum(weight for _, weight in terms)
    assert score(written("weighted", terms=graders), "a", "a") == pytest.approx(wanted)


@pytest.mark.parametrize(("terms", "said"), [
    ([], "1 to 16"), ([{"grader": "exact"}] * 17, "1 to 16"), ([{"grader": "weighted"}], "'weighted' is no grader"),
    ([{"grader": "exact", "weight": 0}], "is 0; it must be above 0"), ([{"weight": 1}], "names no grader"),
    ([{"grader": "exact", "weigth": 1}], "no parameter weigth"), ([{"grader": "regex"}], "terms[0]: "),
    ([{"grader": "exact", "weight": True}], "must be above 0"), ([{"grader": "exact", "name": ""}], "1 to 60"),
])
def test_terms_that_cannot_be_weighed_are_refused(terms, said):
    assert said in refusal(written("weighted", terms=terms)).detail


@pytest.mark.parametrize(("reference", "said"), [
    ("regex", "needs the parameter pattern"), ('exact:{"case":1}', "has no parameter case"),
    ('numeric:{"absolute":-1}', "is -1; it must be a number of at least 0"),
    ('numeric:{"absolute":1e999}', "too large a number"), ('numeric:{"which":"middle"}', "must be last or first"),
    ('contains:{"texts":[]}', "1 to 32 texts"), ('contains:{"texts":[""]}', "must be a text"),
    ('json-schema:{"schema":[]}', "must be a JSON object"),
    (written("contains", texts=["x" * 900] * 3), "at most 2000 are kept"),
])
def test_parameters_that_do_not_fit_are_refused_in_one_sentence(reference, said):
    assert said in refusal(reference).detail


def test_the_graders_need_nothing_of_the_project_but_themselves(tmp_path):
    """What trains must be able to load them as they are, without a framework."""
    (tmp_path / "rules").symlink_to(Path(__file__).resolve().parents[2] / "evaluations" / "graders")
    program = ("import sys; sys.path.insert(0, sys.argv[1]); import rules; "
               "print(rules.judge_of('exact')('a', 'a').score, 'django' in sys.modules, 'evaluations' in sys.modules, "
               "'jsonschema' in sys.modules)")
    done = subprocess.run([sys.executable, "-P", "-c", program, str(tmp_path)], capture_output=True, text=True,
                          check=True)
    assert done.stdout.split() == ["1.0", "False", "False", "False"]


def test_a_report_without_fields_tells_which_label_was_taken_for_which():
    rows = [Graded("billing", " Billing", 1.0, True, {}, ""), Graded("cards", "billing", 0.0, False, {}, ""),
            Graded("cards", "", 0.0, False, {}, ""), Graded("", "x", None, None, {}, "expected_empty")]
    report = build_report(rows)
    assert report["verdicts"] == {"right": 1, "partly": 0, "wrong": 2, "unscored": 1}
    assert report["meanScore"] == pytest.approx(1 / 3) and report["fields"] == []
    assert report["confusion"] == [{"field": "", "labels": ["billing", "cards"],
                                    "columns": ["billing", "cards", "(none)"], "counts": [[1, 0, 0], [1, 0, 1]]}]
    assert build_report(rows, compares_texts=False)["confusion"] == []


def test_the_page_of_graders_tells_of_each_with_its_parameters():
    page = (Path(__file__).resolve().parents[2] / "docs" / "graders.md").read_text()
    for rule in RULES.values():
        _, _, part = page.partition(f"\n## {rule.name}\n")
        assert part, rule.name
        said = part.partition("\n## ")[0]
        assert all(f"`{p.name}`" in said or f'"{p.name}"' in said for p in rule.parameters), rule.name
    assert all(f"`{cause}`" in page for cause in (
        "expected_empty", "expected_without_json", "expected_without_fields", "expected_without_number",
        "pattern_too_slow", "schema_too_costly"))


def test_instructions_that_a_form_sends_are_those_that_a_command_states():
    """A browser writes CR LF where somebody pressed Enter, and counts one character for it."""
    assert check_instructions("model:judges/tone", " Be strict.\r\nBe fair.\r\n") == "Be strict.\nBe fair."
    longest = "x\r\n" * (LONGEST_INSTRUCTIONS // 2)
    assert len(check_instructions("model:judges/tone", longest)) == LONGEST_INSTRUCTIONS - 1
    with pytest.raises(InstructionsTooLong):
        check_instructions("model:judges/tone", longest + "x")
