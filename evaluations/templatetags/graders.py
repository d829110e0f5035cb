"""What a form offers where a grader is named."""

from django import template

from evaluations.graders import RULES

register = template.Library()


@register.simple_tag
def graders() -> list[tuple[str, str]]:
    """The rule graders that need no parameter, with what each does."""
    return [(rule.name, rule.summary) for rule in RULES.values()
            if not any(parameter.is_required for parameter in rule.parameters)]
