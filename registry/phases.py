"""The phases of preparing a base model, and the words the catalog pages use for them."""

from optimize_site.kernel.phases import table

PENDING, PREPARING, FETCHING, READY = "PENDING", "PREPARING", "FETCHING", "READY"
UNSUPPORTED, UNAVAILABLE, DESELECTED = "UNSUPPORTED", "UNAVAILABLE", "DESELECTED"

_ENDS = (READY, UNSUPPORTED, UNAVAILABLE, DESELECTED)

PHASES = table("base_model", {
    PENDING: (PREPARING, DESELECTED),
    PREPARING: (FETCHING, PENDING, *_ENDS),
    FETCHING: (PENDING, *_ENDS),
    READY: (PENDING, DESELECTED),
    UNSUPPORTED: (PENDING, DESELECTED),
    UNAVAILABLE: (PENDING, READY, DESELECTED),
    DESELECTED: (PENDING, READY),
}, active=(PREPARING, FETCHING), resting=_ENDS)

UNDER_WAY = frozenset({PENDING, PREPARING, FETCHING})
REFUSED = frozenset({UNSUPPORTED, UNAVAILABLE})
SELECTED = UNDER_WAY | {READY}

ADMISSION = {"": PENDING, PENDING: PENDING, PREPARING: PENDING, FETCHING: "AVAILABLE", READY: "AVAILABLE",
             DESELECTED: "AVAILABLE", UNSUPPORTED: UNSUPPORTED, UNAVAILABLE: UNAVAILABLE}
"""What admission said of the repository, by phase; an entry that nobody selected was not read yet."""

SELECTION = {PENDING: PREPARING, PREPARING: PREPARING, FETCHING: FETCHING, READY: READY}
"""How far a selection is; absent where there is none."""

LIST_STATUS = {READY: "ready", PENDING: "preparing", PREPARING: "preparing", FETCHING: "preparing",
               UNSUPPORTED: "unsupported", UNAVAILABLE: "unavailable"}
"""The STATUS column of a list; anything else is `not-selected`."""
