"""What can be done with trials. `advance_all` is what the control worker calls."""


def advance_all() -> None:
    """Every control step of trials that is due."""
    from endpoints.operations.trials import advance_trials

    advance_trials()
