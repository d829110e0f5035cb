"""Base models: where they come from, what is checked before they count, and loading one with its adapter."""
