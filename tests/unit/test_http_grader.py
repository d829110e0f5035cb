"""The `http:` grader against services that answer well, badly, slowly, endlessly, or from where they should not be."""

import gzip
import json
import socket
from functools import partial
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluations.scoring.addresses import (
    BadService,
    addresses_of,
    find_allowed,
    look_up,
    read_allowed,
    read_service,
)
from evaluations.scoring.headers import headers_of, sent_to
from evaluations.scoring.http import MAX_REPLY, NoVerdict, make_http, read_answer
from evaluations.scoring.spec import Limits
from evaluations.scoring.terms import Item, NotReady
from tests.grader_service import CERTIFICATE, raw, reply, serving

ITEM = Item(0, [{"role": "user", "content": "2 + 2?"}], "It is 4.", "4")


def ask(say, *, items=(ITEM,), seconds=5.0, tls=False, resolve=None, ca_file=str(CERTIFICATE), name="grader.test",
        headers=()):
    """The verdicts of a service that says so, which the operator allows by name at the loopback address."""
    with serving(say, tls=tls) as service:
        limits = Limits(seconds=seconds, allowed_hosts=[f"{name}:{service.port}=127.0.0.1"], ca_file=ca_file,
                        headers=[entry.replace("PORT", str(service.port)) for entry in headers])
        scorer = make_http(f"http:http{'s' if tls else ''}://{name}:{service.port}/score", limits, None,
                           resolve=resolve or (lambda host, port: ["127.0.0.1"]))
        try:
            return scorer.score(items), service
        finally:
            scorer.close()


def cause_of(say, **options):
    (verdict,), _ = ask(say, **options)
    assert verdict.score is None, verdict
    assert verdict.explanation
    return verdict.cause


def test_an_answer_is_posted_with_its_prompt_and_what_was_expected_and_the_score_comes_back():
    (verdict,), service = ask(reply({"score": 0.25, "explanation": "Wordy."}))
    assert (verdict.score, verdict.is_exact, verdict.explanation, verdict.cause) == (0.25, False, "Wordy.", "")
    assert service.envelopes == [{"input": [{"role": "user", "content": "2 + 2?"}], "output": "It is 4.",
                                  "outputCalls": None, "expected": "4"}]
    assert service.heads[0].startswith("POST /score HTTP/1.1\r\n") and "Accept-Encoding: identity" in service.heads[0]


@pytest.mark.parametrize(("body", "score"), [
    ({"score": 1}, 1.0), ({"score": 0}, 0.0), ({"score": 0.5, "ok": True}, 0.5), ({"ok": True}, 1.0),
    ({"ok": False}, 0.0), ({"passed": True, "explanation": 7}, 1.0), ({"passed": False, "score": None}, 0.0)])
def test_a_score_or_ok_or_passed_is_a_verdict(body, score):
    verdict = read_answer(json.dumps(body).encode())
    assert (verdict.score, verdict.is_exact, verdict.explanation) == (score, score == 1.0, "")


@pytest.mark.parametrize(("body", "cause"), [
    (b"", "no_verdict"), (b"fine", "no_verdict"), (b"[1]", "no_verdict"), (b'{"score"', "no_verdict"),
    (b"\xff\xfe", "no_verdict"), (b"{}", "no_verdict"), (b'{"score": null}', "no_verdict"),
    (b"[" * 60_000, "no_verdict"), (b'{"a":' * 60 + b"1" + b"}" * 60, "no_verdict"),
    (b'{"score": ' + b"9" * 5000 + b"}", "no_verdict"), (b'{"score": 1.5}', "invalid_result"),
    (b'{"score": -0.1}', "invalid_result"), (b'{"score": NaN}', "invalid_result"),
    (b'{"score": Infinity}', "invalid_result"), (b'{"score": 1e999}', "invalid_result"),
    (b'{"score": true}', "invalid_result"), (b'{"score": "1"}', "invalid_result"), (b'{"ok": 1}', "invalid_result"),
    (b'{"ok": true, "passed": false}', "invalid_result")])
def test_what_is_no_verdict_scores_nothing_and_is_counted_by_its_cause(body, cause):
    assert cause_of(reply(body)) == cause


@pytest.mark.parametrize(("say", "cause"), [
    (reply(b"", "Location: http://127.0.0.1/", status="302 Found"), "redirect"),
    (reply(b"", "Location: /score", status="308 Permanent Redirect"), "redirect"),
    (reply({"score": 1}, status="500 Internal Server Error"), "no_verdict"),
    (reply(gzip.compress(b" " * 1000), "Content-Encoding: gzip"), "no_verdict"),
    (reply(b'{"score": 1}' + b" " * MAX_REPLY), "too_large"),
    (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b" " * (MAX_REPLY + 1)), "too_large"),
    (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"ffff\r\n" + b" " * 65535 + b"\r\n2\r\n  \r\n"),
     "too_large"),
    (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}"), "no_verdict"),
    (raw(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n{}"), "no_verdict"),
    (raw(b"SSH-2.0-hello\r\n"), "no_verdict"), (raw(b""), "connection")])
def test_a_service_that_redirects_packs_floods_or_breaks_off_costs_the_row_its_score_only(say, cause):
    (verdict,), service = ask(say)
    assert (verdict.score, verdict.cause, len(service.envelopes)) == (None, cause, 1), "it is asked once"


def _drip(head):
    """Says its head and then a byte whenever the last has gone, until nobody listens."""
    def say(envelope, connection):
        connection.sendall(head)
        connection.settimeout(0.01)
        while True:
            connection.sendall(b" ")
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue
    return say


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_a_service_that_drips_is_left_at_the_limit_of_the_whole_request(head):
    assert cause_of(_drip(head), seconds=0.15) == "timeout"


def test_a_service_that_is_not_there_is_counted_as_not_connected():
    with serving(raw(b"")) as service:
        port = service.port
    scorer = make_http(f"http:http://127.0.0.1:{port}/", Limits(5.0, allowed_hosts=[f"127.0.0.1:{port}"]), None)
    (verdict,) = scorer.score([ITEM])
    assert (verdict.score, verdict.cause) == (None, "connection")


def test_each_row_has_its_own_verdict_in_the_rows_order():
    def say(envelope, connection):
        number = int(envelope["output"])
        (reply({"score": number / 100}) if number % 3 else raw(b""))(envelope, connection)

    verdicts, _ = ask(say, items=[Item(n, [], str(n)) for n in range(20)])
    assert [verdict.score for verdict in verdicts] == [n / 100 if n % 3 else None for n in range(20)]


def test_the_certificate_is_checked_against_who_vouches_for_it_and_the_name():
    (verdict,), _ = ask(reply({"ok": True}), tls=True)
    assert verdict.score == 1.0
    assert cause_of(reply({"ok": True}), tls=True, ca_file="") == "tls"
    assert cause_of(reply({"ok": True}), tls=True, name="other.test") == "tls"


def test_a_name_is_looked_up_once_and_the_connection_goes_to_that_address():
    answers = [["127.0.0.1"], ["10.0.0.1"], ["10.0.0.1"]]
    verdicts, _ = ask(reply({"ok": True}), items=[ITEM, ITEM, ITEM], resolve=lambda host, port: answers.pop(0))
    assert [verdict.score for verdict in verdicts] == [1.0, 1.0, 1.0]
    assert len(answers) == 2


SERVICE = read_service("https://grader.example/score")


@pytest.mark.parametrize("address", [
    "127.0.0.1", "10.1.2.3", "192.168.0.9", "172.16.0.1", "100.64.0.1", "::1", "fc00::1", "::ffff:10.0.0.1", "0.0.0.0",
    "169.254.169.254", "::ffff:169.254.169.254", "fe80::1%lo", "224.0.0.1", "255.255.255.255", "64:ff9b::a00:1",
    "2002:a00:1::", "::", "0.1.2.3"])
@pytest.mark.parametrize("before", [[], ["93.184.216.34"]], ids=["alone", "after a public one"])
def test_a_name_that_leads_into_a_private_network_is_refused(address, before):
    with pytest.raises(NotReady) as refused:
        addresses_of(SERVICE, read_allowed("grader.example"), resolve=lambda host, port: [*before, address])
    assert refused.value.code == "refused_host" and address in refused.value.reason


def test_the_operator_may_say_into_which_network_a_name_leads_but_not_to_nobodys_address():
    allowed = read_allowed("grader.example=10.0.0.0/8")
    assert addresses_of(SERVICE, allowed, resolve=lambda *_: ["10.1.1.1"]) == ["10.1.1.1"]
    for address in ("10.1.1.1", "169.254.169.254"):
        entry = read_allowed(f"grader.example={'169.254.0.0/16' if address[0:3] == '169' else '192.168.0.0/16'}")
        with pytest.raises(NotReady, match=address):
            addresses_of(SERVICE, entry, resolve=lambda *_, found=address: [found])


def test_a_name_without_an_address_is_told_before_anything_is_asked():
    def resolve(host, port):
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(NotReady) as refused:
        addresses_of(SERVICE, read_allowed("grader.example"), resolve=resolve)
    assert (refused.value.code, "grader.example" in refused.value.reason) == ("connection", True)


@pytest.mark.parametrize("url", [
    "", "ftp://grader.example/", "file:///etc/passwd", "gopher://grader.example/", "//grader.example/",
    "grader.example/score", "http://", "http:///score", "http://user:pass@grader.example/", "http://grader.example:0/",
    "http://grader.example:99999/", "http://grader.example/#part", "http://2130706433/", "http://0177.0.0.1/",
    "http://0x7f000001/", "http://127.1/", "http://127.0.0.1.5/", "http://a_b..c/", "http://[::1/", "http://[v1.x]/",
    "http://grader.example/a b", "http://grader.example/\r\nX: y", "http://grädér.example/", "http://grader.example/\0",
    "http://-a.example/", f"http://grader.example/{'a' * 2000}"])
def test_a_url_that_means_no_one_place_is_refused(url):
    with pytest.raises(BadService) as refused:
        read_service(url)
    assert refused.value.detail and refused.value.hint


def test_a_service_has_one_text_however_it_is_written():
    assert read_service("HTTP://Grader.Example.:80").url == "http://grader.example/"
    assert read_service("https://grader.example:443/a?b=c").url == "https://grader.example/a?b=c"
    assert read_service("https://[0:0::1]:8443/").url == "https://[::1]:8443/"


@pytest.mark.parametrize(("url", "hosts", "is_allowed"), [
    ("https://grader.example/", ["grader.example"], True), ("http://grader.example/", ["grader.example"], True),
    ("https://grader.example:8443/", ["grader.example"], False),
    ("https://grader.example:8443/", ["a.example", "grader.example:8443"], True),
    ("https://grader.example.evil.example/", ["grader.example"], False),
    ("https://grader.example./", ["grader.example"], True),
    ("http://localhost./", ["grader.example"], False), ("http://127.0.0.1:9/", ["127.0.0.1:9"], True),
    ("http://[::1]:9/", ["[::1]:9"], True), ("https://grader.example/", [], False)])
def test_only_hosts_that_the_operator_lists_are_asked(url, hosts, is_allowed):
    if is_allowed:
        assert find_allowed(read_service(url), hosts)
        return
    with pytest.raises(BadService) as refused:
        find_allowed(read_service(url), hosts)
    assert read_service(url).authority in refused.value.detail and "http-hosts" in refused.value.hint


@pytest.mark.parametrize("entry", ["", "grader.example/path", "*", "http://grader.example", "grader.example=here",
                                   "a@b", "grader.example:x", "grader.example:0", "0x7f.1"])
def test_an_entry_of_the_list_that_says_nothing_is_refused_and_not_skipped(entry):
    with pytest.raises(BadService) as refused:
        find_allowed(SERVICE, [entry, "grader.example"])
    assert ".." not in refused.value.detail


SECRET = 'k"3y-of\\the-box'


def test_a_service_is_sent_the_headers_of_its_host_and_port_and_no_others(tmp_path, monkeypatch):
    (tmp_path / "key").write_text(f"Bearer {SECRET}\n")
    monkeypatch.setenv("GRADER_TEAM", "blue")
    headers = [f"grader.test:PORT Authorization=file:{tmp_path / 'key'}", "GRADER.test:PORT X-Team=env:GRADER_TEAM",
               "grader.test X-Port=env:GRADER_TEAM", "other.test:PORT X-Host=env:GRADER_TEAM"]
    (verdict,), service = ask(reply({"score": 1}), headers=headers)
    assert verdict.score == 1.0
    assert f"\r\nAuthorization: Bearer {SECRET}\r\nX-Team: blue\r\nContent-Type" in service.heads[0]
    assert not {"X-Port", "X-Host"} & {line.partition(":")[0] for line in service.heads[0].splitlines()}
    _, service = ask(reply({"score": 1}), name="elsewhere.test", headers=headers[:2])
    assert "Bearer" not in service.heads[0] and "blue" not in service.heads[0]


@pytest.mark.parametrize("say", [
    reply({"score": 1, "explanation": f"You said Bearer {SECRET}!"}), reply({"score": f"x {SECRET}"}),
    reply(f"Bearer {SECRET}".encode()), reply({"ok": [SECRET]}),
    reply(b'{"score": 1, "explanation": "' + "".join(f"\\u{ord(letter):04x}" for letter in SECRET).encode() + b'"}'),
    reply(f"Bearer {SECRET}".encode(), f"X-Echo: {SECRET}", status=f"500 {SECRET}"),
    reply(b"", f"Location: http://127.0.0.1/{SECRET}", status="302 Found")])
def test_a_service_that_says_back_what_it_was_sent_has_none_of_it_kept(say, tmp_path):
    (tmp_path / "key").write_text(f"Bearer {SECRET}")
    (verdict,), service = ask(say, headers=[f"grader.test:PORT Authorization=file:{tmp_path / 'key'}"])
    assert SECRET in service.heads[0]
    assert "k\"3" not in repr(verdict).replace("\\", "") and verdict.explanation
    assert verdict.cause or verdict.explanation == "You said ***!" or verdict.explanation == "***"


@pytest.mark.parametrize(("value", "body", "score"), [
    ("true", b'{"ok": true, "explanation": "so true"}', 1.0), ("score", b'{"score": 1, "explanation": "score"}', 1.0),
    ("0.25", b'{"score": 0.2501}', 0.2501), ("passed", b'{"passed": false}', 0.0)])
def test_a_header_whose_value_is_a_word_of_the_verdict_costs_no_verdict(value, body, score, monkeypatch):
    monkeypatch.setenv("GRADER_MODE", value)
    (verdict,), _ = ask(reply(body), headers=["grader.test:PORT X-Mode=env:GRADER_MODE"])
    assert (verdict.score, verdict.cause) == (score, "")
    assert value not in verdict.explanation


@pytest.mark.parametrize("entry", [
    f"grader.example {SECRET}", f"grader.example Authorization={SECRET}", f"grader.example Authorization=file:{SECRET}",
    f"grader.example Authorization=env:{SECRET}", f"{SECRET}", "grader.example Host=env:A", "grader.example A b=env:A",
    "grader.example content-length=env:A", "grader.example=10.0.0.0/8 A=env:B", "grader.example A=env:B C=env:D", ""])
def test_an_entry_that_says_nothing_is_refused_by_its_number_since_it_may_hold_a_secret(entry):
    with pytest.raises(BadService) as refused:
        headers_of(SERVICE, ["other.example A=env:B", entry])
    assert "ntry 2 of trainer.graders.http-headers" in refused.value.detail
    assert SECRET not in refused.value.detail + refused.value.hint


def test_two_entries_for_one_header_are_refused():
    with pytest.raises(BadService, match="twice"):
        headers_of(SERVICE, ["grader.example A=env:B", "grader.example:443 a=env:C"])


@pytest.mark.parametrize(("text", "reason"), [
    (None, "No such file"), ("", "empty"), ("\n", "empty"), (f"{SECRET}\nX: y", "more than one line"),
    (f"{SECRET}\u00e9", "more than one line"), (SECRET * 400, "more than one line"),
    (b"\xff" + SECRET.encode(), "no text")])
def test_a_value_that_cannot_be_sent_is_told_without_it_and_nothing_is_asked(text, reason, tmp_path):
    file = tmp_path / "key"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(NotReady) as refused:
        sent_to(SERVICE, ["93.184.216.34"], headers_of(SERVICE, [f"grader.example Authorization=file:{file}"]))
    assert refused.value.code == "header_not_readable" and reason in refused.value.reason
    assert str(file) in refused.value.reason and SECRET not in refused.value.reason + refused.value.hint
    assert refused.value.__cause__ is None


def test_a_header_travels_in_the_clear_within_a_private_network_only():
    service = read_service("http://grader.example/")
    headers = headers_of(service, ["grader.example Authorization=env:KEY"])
    assert SECRET not in repr(sent_to(service, ["10.0.0.7"], headers, {"KEY": SECRET}.get))
    for addresses in (["93.184.216.34"], ["10.0.0.7", "93.184.216.34"]):
        with pytest.raises(NotReady, match="in the clear"):
            sent_to(service, addresses, headers, {"KEY": SECRET}.get)
    with pytest.raises(NotReady, match="the variable KEY: it is not set"):
        sent_to(service, ["10.0.0.7"], headers, {}.get)


VALUES = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | st.just([1])
JSON = st.dictionaries(st.sampled_from(["score", "ok", "passed", "explanation"]), VALUES)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60) | JSON.map(lambda found: json.dumps(found).encode()))
def test_whatever_a_service_says_is_a_score_from_0_to_1_or_a_cause(body):
    try:
        verdict = read_answer(body)
    except NoVerdict as error:
        assert error.cause in {"no_verdict", "invalid_result"} and error.reason
    else:
        assert 0.0 <= verdict.score <= 1.0


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40) | st.text("ab1.:/@[]#?%0x", max_size=30).map("http://{}".format))
def test_whatever_is_written_as_a_url_is_one_place_with_one_text_or_refused(text):
    try:
        service = read_service(text)
    except BadService:
        return
    assert read_service(service.url) == service


def test_a_name_server_that_never_answers_is_not_waited_for(monkeypatch):
    answered = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait() and [])
    with pytest.raises(NotReady, match=r"no answer within 0\.01 seconds") as told:
        addresses_of(SERVICE, read_allowed("grader.example"), resolve=partial(look_up, seconds=0.01))
    assert told.value.code == "connection"
    answered.set()


@pytest.mark.parametrize("error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
def test_a_name_that_cannot_be_looked_up_is_told_by_its_cause(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(NotReady, match="has no address: ") as told:
        addresses_of(SERVICE, read_allowed("grader.example"))
    assert told.value.code == "connection"
