"""Pages of runs, one a module; importing them registers what home, search and datasets show of runs."""

from runs.views import curves, detail, epochs, listing, new, preview, shown

__all__ = ["curves", "detail", "epochs", "listing", "new", "preview", "shown"]
