"""Bodies that the datasets' routes take."""

from optimize_site.kernel.api import Body


class NameTarget(Body):
    """The dataset a bare name shall point at: a hash, a prefix of one, a name or a reference."""

    dataset: str


class AskedImages(Body):
    """Images by the SHA-256 of their bytes, at most 1,000."""

    sha256s: list[str]
