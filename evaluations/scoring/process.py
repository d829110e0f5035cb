"""The scorer process: reads requests until its input ends, and says what every term says of their items."""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TextIO

from evaluations.scoring.makers import close_terms, make_terms
from evaluations.scoring.protocol import BadRequest, read_request, refusal, reply
from evaluations.scoring.spec import read_spec
from evaluations.scoring.terms import Item, NotReady, Scored, Term, score_term

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Serve this process's input. Nothing but protocol reaches its output: what else is printed goes to its errors."""
    die_with_parent()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogatepass")  # type: ignore[union-attr]
    return serve(sys.stdin, out)


def die_with_parent() -> None:
    """Have the kernel kill this process once whoever started it is gone."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def serve(lines: TextIO, out: TextIO) -> int:
    """Answer line by line. Gives the exit status: 0 at the end of the input, 1 where nothing can be scored."""
    try:
        spec = read_spec(_json(lines.readline()))
        terms = make_terms(spec)
    except NotReady as error:
        _say(out, refusal(error))
        return 1
    _say(out, {"ready": True})
    with _scoring(terms) as score:
        for line in lines:
            _say(out, _answer(line, score))
    return 0


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotReady("bad_spec", f"The spec is no JSON: {error}.") from error


def _answer(line: str, score: Any) -> dict[str, Any]:
    try:
        number, items = read_request(line)
    except BadRequest as error:
        return {"id": error.number, "error": str(error)}
    return reply(number, score(items))


@contextmanager
def _scoring(terms: list[Term]) -> Iterator[Any]:
    """A function from items to what every term says of them; those that wait run beside the others.

    Rules never run beside each other: their patience is processor time, of the whole process.
    """
    waiting = [term for term in terms if term.waits]
    with ThreadPoolExecutor(max(len(waiting), 1), thread_name_prefix="term") as pool:

        def score(items: Sequence[Item]) -> list[Scored]:
            begun = {term.name: pool.submit(score_term, term, items) for term in waiting}
            return [begun[term.name].result() if term.name in begun else score_term(term, items) for term in terms]

        try:
            yield score
        finally:
            close_terms(terms)


def _say(out: TextIO, body: dict[str, Any]) -> None:
    out.write(json.dumps(body, ensure_ascii=True, separators=(",", ":")) + "\n")
    out.flush()
