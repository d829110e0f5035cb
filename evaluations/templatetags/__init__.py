"""Template tags of evaluations."""
