"""Makes a large row small enough to show: its long texts and lists are cut, and its answer stays in sight. Pure."""

from typing import Any

MARK = "…"
STRING_SHARE = 8
LAST_SHARE = 4
SHORT = 64


def cut_row(value: Any, room: int) -> Any:
    """The value with about `room` characters of its text: long strings end in a mark, middle items of lists are left
    out, the last item of a list is kept before those in its middle."""
    return _Cut(room).of(value)


class _Cut:
    """How much room is left while a value is walked through in order."""

    def __init__(self, room: int):
        self.left = room
        self.longest = max(1, room // STRING_SHARE)

    def of(self, value: Any) -> Any:
        self.left -= 1
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, list):
            return self._list(value)
        if isinstance(value, dict):
            return self._object(value)
        self.left -= len(str(value))
        return value

    def _string(self, text: str) -> str:
        room = max(0, min(self.longest, self.left))
        self.left -= min(room, len(text))
        return text if len(text) <= room else text[:room] + MARK

    def _list(self, items: list[Any]) -> list[Any]:
        if not items:
            return []
        last = self._within(items[-1], self.left // LAST_SHARE)
        kept: list[Any] = []
        for item in items[:-1]:
            if self.left <= 0:
                break
            kept.append(self.of(item))
        return [*kept, last]

    def _within(self, value: Any, room: int) -> Any:
        part = _Cut(max(room, 1))
        part.longest = min(self.longest, max(room, 1))
        found = part.of(value)
        self.left -= room - max(part.left, 0)
        return found

    def _object(self, items: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in sorted(items, key=lambda key: _is_large(items[key])):
            if self.left <= 0:
                break
            if len(key) <= self.longest:
                self.left -= len(key)
                found[key] = self.of(items[key])
        return {key: found[key] for key in items if key in found}


def _is_large(value: Any) -> bool:
    """Whether a member of an object waits until the small ones, such as a message's role, have their room."""
    return isinstance(value, list | dict) or (isinstance(value, str) and len(value) > SHORT)
