"""The grammar of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import InvalidReference, ReservedAlias
from registry.references import parse_alias, parse_artifact, parse_namespace, parse_reference

BAD = ["../x", "..%2fx", "..%252fx", "..\\x", "/etc/x", "C:\\x", "\\\\host\\x", "a\0b", "a\nb", "a\u202eb", "x" * 300,
       ".", "..", "", " ", "-a", "a-", ".a", "a b", "é", "İx", "a/", "/a", "a//b", "a/b/c", "a/../b", "\u212aelvin/x"]


@pytest.mark.parametrize(("text", "written"), [
    ("support/train", "support/train"), ("Qwen/Qwen3-0.6B", "qwen/qwen3-0.6b"), ("train", "train"),
    ("a/b:V2", "a/b:v2"), ("a/b:Champion", "a/b:champion"), ("train:v12", "train:v12"),
    ("a/b@sha256:" + "AB" * 32, "a/b@sha256:" + "ab" * 32), ("0.a_b-c/1", "0.a_b-c/1"), ("x" * 64, "x" * 64),
])
def test_a_reference_is_read_and_lowered(text, written):
    assert str(parse_reference(text)) == written


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_name_is_refused_everywhere(text):
    for parse in (parse_reference, parse_artifact, parse_alias):
        with pytest.raises(InvalidReference):
            parse(text)
    for whole in (f"{text}/train", f"support/{text}", f"support/train:{text}"):
        with pytest.raises(InvalidReference):
            parse_artifact(whole)
            parse_reference(whole)
    with pytest.raises(InvalidReference):
        parse_namespace(text)


@pytest.mark.parametrize("text", ["a/b@sha256:12", "a/b@md5:" + "a" * 32, "a/b@" + "a" * 64, "a/b:v2:v3"])
def test_a_broken_label_is_refused(text):
    with pytest.raises(InvalidReference):
        parse_reference(text)


@pytest.mark.parametrize("alias", ["latest", "LATEST", "v2", "V10", "v0"])
def test_an_alias_is_neither_latest_nor_like_a_version(alias):
    with pytest.raises(ReservedAlias):
        parse_alias(alias)


@given(st.text(max_size=40))
def test_a_text_is_a_name_or_refused_in_one_clean_sentence(text):
    try:
        reference = parse_reference(text)
    except InvalidReference as error:
        assert error.detail.isprintable()
        assert error.hint
    else:
        assert parse_reference(str(reference)) == reference
        assert "/" not in reference.name
        assert reference.name != ".."
