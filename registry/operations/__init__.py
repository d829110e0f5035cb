"""What the registry does: one module a noun. `advance_all` is what the control worker calls."""


def advance_all() -> None:
    """Every control step of the registry that is due."""
    from registry.operations.base_models import advance_base_models

    advance_base_models()
