"""The verbs of `./optimize registry`, a mixin for each kind of artifact."""
