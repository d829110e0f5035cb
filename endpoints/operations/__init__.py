"""What can be done with trials and judges. `advance_all` is what the control worker calls."""


def advance_all() -> None:
    """Every control step of trials and judges that is due."""
    from endpoints.operations.judges import advance_judges
    from endpoints.operations.trials import advance_trials

    advance_trials()
    advance_judges()
