"""The curves of a reinforcement run's page: the reward and its terms, the policy, where the time goes. Pure."""

from collections.abc import Sequence
from typing import Any

FAILURES = "failures."
CAUSES = ("timeout", "connection", "no_verdict", "error", "crash", "invalid_result", "too_large", "refused_host")
"""What a failed score may be put down to; a cause that a run has beside these is found in its figures."""
REWARD = ({"title": "Reward", "term": "reward", "names": "reward,reward_p5,reward_p95",
           "labels": "Mean|5th percentile|95th percentile", "is_big": True, "is_alike": True},)
POLICY: tuple[dict[str, Any], ...] = (
    {"title": "Groups and scores that teach little", "term": "zero spread",
     "names": "zero_variance_groups,scored_zero,scored_full", "labels": "Groups without spread|Scored zero|Scored full",
     "is_alike": True},
    {"title": "KL from the reference", "term": "KL penalty", "names": "kl", "labels": "KL"},
    {"title": "Entropy", "term": "entropy", "names": "entropy", "labels": "Entropy"},
    {"title": "Completion length, tokens", "term": "completion length",
     "names": "completion_mean,completion_ended_mean,completion_min,completion_max",
     "labels": "Mean|Mean of those that ended|Shortest|Longest", "is_alike": True},
    {"title": "Completions cut at the ceiling", "term": "completion length", "names": "completion_clipped",
     "labels": "Share"},
    {"title": "Repeated completions", "term": "repeated completions",
     "names": "completions_repeated,completions_shared", "labels": "Said already|Said to another prompt",
     "is_alike": True},
    {"title": "Variety of words", "term": "distinct pairs", "names": "completions_distinct_pairs",
     "labels": "Different pairs"},
    {"title": "Tokens clipped", "term": "policy ratio", "names": "clip_low,clip_high", "labels": "Below|Above",
     "is_alike": True},
    {"title": "What sampled and what learns apart", "term": "", "names": "sampler_gap,sampler_left_out",
     "labels": "Mean difference|Left out", "is_alike": True},
    {"title": "Seconds of an update", "term": "", "names": "generate_seconds,reward_seconds,update_seconds",
     "labels": "Generation|Scoring|Update", "is_alike": True},
)


def reward_curves(terms: Sequence[str], causes: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The curves, for a reward of these terms; those without points stay hidden."""
    failures = dict.fromkeys([*CAUSES, *causes])
    return [*map(dict, REWARD), *_of_terms("Reward by term", "reward term", "mean", terms),
            *map(dict, POLICY), *_of_terms("Seconds to score a rollout", "reward term", "seconds", terms),
            {"title": "Failed scores", "term": "failed score", "is_alike": True,
             "names": ",".join(FAILURES + cause for cause in failures),
             "labels": "|".join(cause.replace("_", " ") for cause in failures)},
            {"title": "Tokens of the judge", "term": "judge", "names": "judge_tokens", "labels": "Tokens"}]


def _of_terms(title: str, word: str, figure: str, terms: Sequence[str]) -> list[dict[str, Any]]:
    return [{"title": title, "term": word, "names": ",".join(f"term.{name}.{figure}" for name in terms),
             "labels": "|".join(terms), "is_alike": True}] if terms else []
