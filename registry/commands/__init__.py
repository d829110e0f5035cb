"""Verbs that the `registry` command is made of."""
