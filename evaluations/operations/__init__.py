"""What evaluations do: one module a noun. `advance_all` is what the control worker calls."""


def advance_all() -> None:
    """Every control step of evaluations that is due."""
    from evaluations.operations.comparisons import advance_comparisons
    from evaluations.operations.evaluations import advance_evaluations, advance_judged
    from evaluations.operations.pipelines import advance_pipelines

    advance_evaluations()
    advance_judged()
    advance_pipelines()
    advance_comparisons()
