"""Learning from rewards, GRPO and GSPO: a supervised run's way from plan to adapter, over prompts it rolls out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peft import LoraConfig

from optimize_child.answering.answers import Limits
from optimize_child.answering.sampling import Manner
from optimize_child.failures import JobFailure
from optimize_child.job import Job
from optimize_child.reading.questions import answer_text, stop_ids
from optimize_child.reading.run_rows import RunRows
from optimize_child.reinforcement import reward_failures
from optimize_child.reinforcement.layout import Completions, PaddedGroups, SharedPrompt
from optimize_child.reinforcement.loss import objective_of
from optimize_child.reinforcement.prompts import Room, read_prompts
from optimize_child.reinforcement.rewards import RewardRule
from optimize_child.reinforcement.rolling import Roller
from optimize_child.reinforcement.samplers import (
    EngineShape,
    OwnSampler,
    Sampler,
    UntilLost,
    VllmSampler,
    refuse_adapter,
)
from optimize_child.reinforcement.settings import as_supervised, rl_hyperparameters, rl_updates
from optimize_child.reinforcement.start import WarmStart, lora_of
from optimize_child.reinforcement.trainer import PolicyTrainer
from optimize_child.scorer_process import ScorerProcess
from optimize_child.training import reference_check, supervised
from optimize_child.training.branch import TRAINING_STATE, WEIGHTS
from optimize_child.training.compute_path import ComputePath
from optimize_child.training.trainer import SupervisedTrainer


def run(job: Job) -> None:
    """The whole of one attempt, from its plan to its last event."""
    supervised.follow(ReinforcementRun(job))


class ReinforcementRun(supervised.Run):
    """One attempt of a reinforcement run; an example is a prompt, and an update all that is sampled of its prompts."""

    def __init__(self, job: Job) -> None:
        job.plan = {**job.plan, "config": as_supervised(job.plan["config"]), "validation": None}
        super().__init__(job)
        self.rl = self.config["rlHyperparams"]
        self.warm_start = WarmStart(self.plan["warm_start"]) if self.plan.get("warm_start") else None
        self.scorer = ScorerProcess(self.plan["scorer"], job.folder / "scorer.log", leave_if_asked=job.leave_if_asked)
        self.engine: VllmSampler | None = None

    def close(self) -> None:
        """Let the processes beside the job end."""
        self.scorer.close()
        if self.engine:
            self.engine.close()

    # -- what is read ------------------------------------------------------------------------------------------------

    def _read(self) -> RunRows:
        if self.warm_start:
            self.warm_start.verify()
        total = self.plan["dataset"].get("num_examples")

        def tick(done: int) -> None:
            self.job.stage("tokenising", done, total)
            self.job.leave_if_asked()

        tick(0)
        files = [Path(file) for file in self.plan["dataset"]["files"]]
        room = Room(self.config["maxSeqLength"], self.rl["maxCompletionLength"])
        self.prompts = read_prompts(files, self.template, room, tick, self.job.folder)
        return RunRows(self.prompts.rows, None)

    def _total_updates(self) -> int:
        return rl_updates(len(self.updates), epochs=self.rl["epochs"], max_steps=self.rl["maxSteps"])

    # -- the model ---------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """What scores is ready before the model is loaded: a reward that cannot score is told in seconds. So is vLLM,
        which measures what is free."""
        self.job.stage("starting_scorer")
        self.scorer.start()
        self._start_engine()
        super().build()

    def _start_engine(self) -> None:
        """vLLM, where the plan names it. Where it does not start and the box does not ask for it, the run samples with
        its own model."""
        part = self.plan.get("sampler") or {}
        self.why_own = part.get("reason", "")
        if part.get("kind") != "vllm":
            return
        self.job.leave_if_asked()
        self.job.stage("starting_vllm")
        try:
            self.engine = VllmSampler(
                self._engine_shape(part), base=self.base, base_model=self.plan["base_model"], attempt=self.job.folder,
                python=part["python"], leave_if_asked=self.job.leave_if_asked,
            )  # fmt: skip
            self.engine.start()
            self.runtime.engine_pid = self.engine.pid
        except JobFailure as failure:
            if part["required"]:
                raise
            if self.engine:
                self.engine.close()
            self.engine, self.why_own = None, failure.reason
            message = f"{failure.reason} The run samples with its own model."
            self.job.events.emit("warning", code=failure.code, message=message)

    def _engine_shape(self, part: dict[str, Any]) -> EngineShape:
        folder = self._continued()
        inherited = lora_of(folder) if folder else None
        if inherited:
            refuse_adapter(inherited)
        return EngineShape(
            length=self.config["maxSeqLength"],
            at_once=part["at_once"],
            rank=inherited.r if inherited else self.rl["lora"]["rank"],
            memory_share=part["memory_share"],
            device=self.device,
            uuids=self.plan["device"]["uuids"],
        )

    def _lora(self) -> LoraConfig:
        """An adapter that is trained further keeps its shape, whatever the run states."""
        folder = self._continued()
        return lora_of(folder) if folder else super()._lora()

    def _path(self) -> ComputePath:
        folder = self._continued()
        if folder:
            self.config["hyperparams"]["lora"] |= {"dropout": lora_of(folder).lora_dropout}
        return super()._path()

    def _continued(self) -> Path | None:
        """The folder of the adapter that the run goes on from, as its plan began it."""
        if self.source:
            return self.source.folder
        return self.warm_start.folder if self.warm_start else None

    def _layout(self, rows: Any) -> Any:
        return SharedPrompt(self._pass_sequences()) if self.path.kind == "unpadded" else self._plain_layout(rows)

    def _plain_layout(self, rows: Any) -> Any:
        return PaddedGroups(self._pass_sequences(), self.tokenizer.pad_token_id or 0)

    def _pass_sequences(self) -> int:
        most: int = self.plan["execution"].get("microBatchSequences") or self.rl["groupSize"]
        return most

    # -- the trainer -------------------------------------------------------------------------------------------------

    def _make_trainer(self, **settings: Any) -> SupervisedTrainer:
        manner = Manner(
            group_size=self.rl["groupSize"],
            temperature=float(self.rl["temperature"]),
            limits=Limits(stop_ids(self.base, self.tokenizer), self.rl["maxCompletionLength"]),
            seed=self.training["seed"],
            pad_token_id=self.tokenizer.pad_token_id or 0,
        )
        rule = RewardRule(self.plan["scorer"]["spec"])
        roller = Roller(
            manner=manner,
            scorer=self.scorer,
            rule=rule,
            text_of=lambda tokens: answer_text(self.tokenizer, tokens),
            sampler=self._sampler(),
        )
        objective = objective_of(self.config["method"], float(self.rl["klBeta"]))
        failures = reward_failures.RewardFailures(rule, self.plan["failed_updates"])
        return PolicyTrainer(
            prompts=self.prompts, roller=roller, failures=failures, objective=objective, group_layout=self.layout,
            **settings,
        )  # fmt: skip

    def train(self) -> None:
        """A reward that has failed for too long costs the run nothing that it learned: the boundary before is saved."""
        try:
            super().train()
        except JobFailure as failure:
            if failure.code == reward_failures.CODE:
                self.trainer.leave_update("failed", came_from=self.resume["step"] if self.resume else 0)
                self.trainer.finish_saves()
            raise

    def _sampler(self) -> Sampler:
        """Who samples. Where the box does not ask for vLLM, a run that loses it goes on with its own model."""
        if self.engine is None:
            return self._own_sampler(self.why_own)
        if self.plan["sampler"]["required"]:
            return self.engine
        return UntilLost(self.engine, own=self._own_sampler, tell=self._tell_lost)

    def _own_sampler(self, reason: str) -> OwnSampler:
        """A policy with dropout learns by other log-probabilities than it samples by, and the library's generation has
        not been held to a GPU's rounding: there, what was sampled is not checked against what is learned from."""
        tells = self.device == "cpu" and not self.lora.lora_dropout
        return OwnSampler(self.path.kind != "unpadded", reason, tells=tells)

    def _tell_lost(self, failure: JobFailure, update: int) -> None:
        message = f"{failure.reason} From update {update} on the run samples with its own model."
        self.job.events.emit("warning", code=failure.code, message=message)
        self._emit_engine_config()
        self.runtime.engine_pid = None
        self.runtime.tell(rolloutEngine=self._rollout_engines())

    def _trainer(self) -> SupervisedTrainer:
        """The adapter as the run begins it is the reference; a branch that keeps a training state goes on from that."""
        trainer = super()._trainer()
        of_weights = self.source is not None and self.source.mode == WEIGHTS
        if self.warm_start and not of_weights:
            self.warm_start.load_weights(trainer.model)
        if self.warm_start or of_weights:
            trainer.reference.keep(trainer.model)
        if self.source and self.source.mode == TRAINING_STATE:
            self.source.load_weights(trainer.model)
        return trainer

    def _checked(self) -> Any:
        """The first prompts, each with the answers that their rows expect."""
        first = next(iter(self.updates))[: reference_check.ROWS]
        prompts = [self.prompts.prompt(row) for row in first]
        texts = self.template.tokenize([prompt.expected for prompt in prompts])[0]
        answers = [[*tokens, self.tokenizer.eos_token_id] for tokens in texts]
        return [Completions(prompt.tokens, answers, 0) for prompt in prompts]

    # -- what is said before the first update ------------------------------------------------------------------------

    def _fit(self, rows: Any) -> dict[str, Any]:
        """Prompts are trained on by no token of their own."""
        lengths = rows.lengths()
        return {"rows": len(rows), "tooLong": 0, "trainedTokens": 0, "totalTokens": int(lengths.sum()),
                "longest": int(lengths.max())}  # fmt: skip

    def _hyperparameters(self) -> tuple[dict[str, Any], str]:
        shape = {"rank": self.lora.r, "alpha": self.lora.lora_alpha, "dropout": self.lora.lora_dropout}
        return rl_hyperparameters(self.config, {**self.rl["lora"], **shape}, self.total_steps)

    def _stated_pass(self) -> dict[str, Any]:
        """A pass of completions is what its execution states, or a group."""
        return {}

    def _rollout_engines(self) -> list[dict[str, Any]]:
        """Who samples: vLLM as it says of itself, or the trainer's own model, whose cache lives for one update."""
        own = {
            "engine": "own",
            "contextLength": self.config["maxSeqLength"],
            "attentionBackends": [self.model.config._attn_implementation],
            "kvCache": {"dtype": str(self.model.dtype).removeprefix("torch."), "blockSize": None, "blocks": None,
                        "tokens": None},
            "memoryShare": None,
            "eager": True,
            "multimodalProfiling": False,
        }  # fmt: skip
        sampler = self.trainer._roller.sampler
        return [{"replica": 0, "dataParallelRank": 0, **(sampler.runtime() or own)}]

    def _resolved(self) -> dict[str, Any]:
        objective, reference = self.trainer._objective, self.trainer.reference
        loss = {
            "method": self.config["method"],
            "ratio": objective.level,
            "mean": "over all tokens" if objective.level == "token" else "over completions of means over their tokens",
            "advantage": "group",
            "klBeta": objective.beta,
            "reference": _reference_words(reference.is_adapter) if objective.beta else None,
        }
        return {**super()._resolved(), "policyLoss": loss, "sampler": self.trainer._roller.sampler.document()}


def _reference_words(is_adapter: bool) -> str:
    return "the adapter it started from" if is_adapter else "the base model"
