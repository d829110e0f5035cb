"""The verbs of `runs` that have to do with what reinforcement runs sampled and scored."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.commands import NounCommand, arg, plain, verb
from runs.rollouts import text

ROUTE = "/v1/training/runs"
RUN = arg("run", metavar="RUN", help="ID, or the beginning of one")


class RolloutVerbs(NounCommand):
    """Reading completions and rewards."""

    @verb("rollouts", RUN, arg("--step", type=int, default=None, help="the update; the newest kept one unless given"),
          arg("--worst", type=int, default=0, metavar="N", help="those with the lowest reward"),
          arg("--best", type=int, default=0, metavar="N", help="those with the highest reward"),
          arg("--term", default="", metavar="NAME", help="worst and best by this term's share"),
          arg("--search", default="", metavar="TEXT", help="those whose completion or prompt holds it"),
          arg("--row", type=int, default=None, help="those that answer this row of the dataset"),
          arg("--every-step", action="store_true", dest="every_step", help="of every update that is kept"),
          arg("--limit", type=int, default=50, help="in the order in which they were scored; 200 at most"),
          arg("--offset", type=int, default=0))
    def rollouts(self, run: str, **asked: Any) -> None:
        """Show the scored completions of an update."""
        asked["everyStep"] = asked.pop("every_step")
        given = {name: value for name, value in asked.items() if value is not None}
        self.show(self.client.get(f"{ROUTE}/{quote(run, safe='')}/rollouts", **given), text=self._rollouts)

    @verb("rewards", RUN, arg("--step", type=int, default=None, help="the update whose spread is shown"))
    def rewards(self, run: str, step: int | None) -> None:
        """Show what a run's reward did: its terms, failures, spread, and signs of hacking."""
        given = {} if step is None else {"step": step}
        self.show(self.client.get(f"{ROUTE}/{quote(run, safe='')}/rewards", **given), text=self._rewards)

    def _rollouts(self, found: dict[str, Any]) -> None:
        with_steps = found["step"] is None
        if found["rollouts"]:
            columns = text.rollout_columns(found["terms"], with_steps=with_steps)
            self.table(columns, text.rollout_rows(found["rollouts"], found["terms"], with_steps=with_steps),
                       right=["STEP", "ROW", "SCORE", *found["terms"], "TOKENS"])
        print(plain(text.step_words(found)))

    def _rewards(self, found: dict[str, Any]) -> None:
        self.facts(text.reward_rows(found), title="Reward")
        if found["terms"]:
            print()
            self.table(text.TERM_COLUMNS, text.term_rows(found["terms"]), right=text.TERM_COLUMNS[1:])
        spread = text.spread_rows(found["distributions"])
        if spread:
            self.facts([], title=f"Spread over the rollouts of update {found['distributions']['step']}")
            self.table(text.SPREAD_COLUMNS, spread, right=text.SPREAD_COLUMNS[1:-1])
        elif found["note"]:
            print(plain(found["note"]))
