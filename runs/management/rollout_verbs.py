"""The verbs of `runs` that have to do with what reinforcement runs sampled and scored."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.commands import NounCommand, arg, plain, verb
from optimize_site.kernel.errors import InvalidInput
from runs.rollouts import text

ROUTE = "/v1/training/runs"
PAGE = 100
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

    @verb("histograms", RUN, arg("--term", default="", metavar="NAME", help="the share of this term, not the reward"),
          arg("--length", action="store_true", help="the tokens of the completions, not the reward"),
          arg("--rows", type=int, default=20, metavar="N", help="updates in the table, evenly apart; JSON has all"))
    def histograms(self, run: str, term: str, length: bool, rows: int) -> None:
        """Show how the reward, a term's share or the length is spread over the rollouts of each update."""
        if term and length:
            raise InvalidInput("--term and --length ask for two figures, and the table shows one.",
                               hint="Leave one of them out; -o json has every figure.", code="too_many_figures")
        steps = self._every_step(f"{ROUTE}/{quote(run, safe='')}/histograms")
        self.show(steps, text=lambda found: self._histograms(found["steps"], term, length, rows))

    def _every_step(self, route: str) -> dict[str, Any]:
        """The document of the route with every page of it."""
        found: dict[str, Any] = self.client.get(route, limit=PAGE)
        while len(found["steps"]) < found["total"]:
            page = self.client.get(route, limit=PAGE, offset=len(found["steps"]))["steps"]
            if not page:
                break
            found["steps"] += page
        return {"steps": found["steps"], "total": found["total"]}

    def _histograms(self, steps: list[dict[str, Any]], term: str, length: bool, rows: int) -> None:
        spreads = text.spreads_of(steps, term=term, length=length)
        if not spreads:
            print("No rollouts are kept yet.")
            return
        edges = text.shared_edges(spreads)
        self.facts([], title=f"{term or ('tokens' if length else 'reward')} over {len(spreads)} updates")
        columns = text.histogram_columns(edges)
        self.table(columns, text.histogram_rows(spreads, edges, rows), right=text.HISTOGRAM_NUMBERS)

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
