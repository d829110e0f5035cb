"""Asking a model: greedy and sampled completions, many at once, what prompts share computed once."""
