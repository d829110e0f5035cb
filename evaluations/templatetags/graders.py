"""Graders on pages: what a form offers where one is named, and one said in a line."""

import json

from django import template

from evaluations.graders import RULES

register = template.Library()
LONGEST = 80
"""Characters of a grader in a line."""


@register.simple_tag
def graders() -> list[tuple[str, str]]:
    """The rule graders that need no parameter, with what each does."""
    return [(rule.name, rule.summary) for rule in RULES.values()
            if not any(parameter.is_required for parameter in rule.parameters)]


@register.filter
def grader_words(reference: str) -> str:
    """A kept grader in a line: `weighted` with the names of its terms, any other as written, cut where it is long."""
    name, _, parameters = reference.partition(":")
    if name == "weighted":
        terms = json.loads(parameters)["terms"]
        reference = f"{name}: {', '.join(term.get('name') or term['grader'].partition(':')[0] for term in terms)}"
    return reference if len(reference) <= LONGEST else f"{reference[:LONGEST - 1]}…"
