"""The rule graders: what scores an answer by itself, without a model or a service.

Pure: no rows, no clock, no framework, nothing imported from the rest of the project, so that whatever scores (an
evaluation, a reward, a gate) scores alike. A module a grader; `registry` names them all.
"""

from .registry import RULES, judge_of, parse_reference
from .rule import BadGrader, Judge, Parameter, Rule
from .verdict import Verdict

__all__ = ["RULES", "BadGrader", "Judge", "Parameter", "Rule", "Verdict", "judge_of", "parse_reference"]
