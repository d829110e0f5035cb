"""What can go wrong with the box itself, in sentences."""


class ApplianceError(Exception):
    """Something stops the box; `detail` says what, `hint` what to do about it."""

    def __init__(self, detail: str, *, hint: str = "", log: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.log = log

    def __str__(self) -> str:
        return "\n".join(part for part in (self.detail, self.log, self.hint) if part)


class AlreadyUp(ApplianceError):
    """Another `up` holds the state folder."""
