"""A box asked over HTTP, as `curl` with a token would: it costs the box nothing but the answer."""

import json
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

from tests.e2e.conftest import Box

ANSWER_SECONDS = 90


class Http:
    """What `curl` with a token would do."""

    def __init__(self, box: Box, token: str):
        self.box, self.token = box, token

    def call(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
        """One request; raises HTTPError for a refusal, URLError where nobody answers."""
        request = urllib.request.Request(
            self.box.url + path,
            data=body,
            method=method,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": kind},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def post(self, path: str, body: Any) -> Any:
        """Send a document."""
        return self.call("POST", path, json.dumps(body).encode())

    def get(self, path: str) -> Any:
        """Read; a box that is coming back is asked again."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return self.call("GET", path)
            except (OSError, HTTPException) as error:
                is_answer = isinstance(error, urllib.error.HTTPError) and error.code < 500
                if is_answer or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def follow(self, path: str, field: str, until: set[str], seconds: float = 240) -> Any:
        """Read until a field of the document has one of the values."""
        deadline = time.monotonic() + seconds
        while (found := self.get(path))[field] not in until:
            assert time.monotonic() < deadline, f"{found}\n{self.box.logs()}"
            time.sleep(0.3)  # an answer costs the box as much as an update of the tiny model
        return found
