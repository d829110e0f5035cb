"""The box's words for what machines call otherwise: phases and terms of the field."""

from typing import NamedTuple


class Word(NamedTuple):
    """How a state is shown: a word, an icon beside it, and the tone both are in."""

    text: str
    icon: str
    tone: str


WAITING, BUSY = ("clock", "soft"), ("spin", "busy")
STATES = {
    "RESOLVING_DATASET": Word("Reading the dataset", *BUSY),
    "AWAITING_BASE_MODEL": Word("Waiting for the base model", *WAITING),
    "DEPLOYING_GRADER": Word("Starting the grader", *BUSY),
    "AWAITING_GRADER": Word("Waiting for the grader", *WAITING),
    "AWAITING_CAPACITY": Word("Waiting for a device", *WAITING),
    "STARTING_JOB": Word("Starting", *BUSY),
    "QUEUED": Word("Starting", *BUSY),
    "PREPARING": Word("Preparing", *BUSY),
    "TRAINING": Word("Training", *BUSY),
    "PAUSING": Word("Pausing", *BUSY),
    "PAUSED": Word("Paused", "stop", "warn"),
    "RECORDING": Word("Recording the model", *BUSY),
    "CLEANING_UP": Word("Cleaning up", *BUSY),
    "EVALUATING": Word("Answering", *BUSY),
    "SCORING": Word("Scoring", *BUSY),
    "COMPLETED": Word("Completed", "check", "good"),
    "FAILED": Word("Failed", "cross", "bad"),
    "CANCELLED": Word("Cancelled", "stop", "soft"),
    "RUNNING": Word("Running", *BUSY),
    "PARTIAL": Word("Partly scored", "alert", "warn"),
    "SKIPPED": Word("Not run", "circle", "soft"),
    "UNSCORED": Word("Not scored", "circle", "warn"),
    "NOT_SELECTED": Word("Not chosen", "circle", "soft"),
    "PENDING": Word("Reading the repository", *BUSY),
    "STOPPING": Word("Being stopped", *BUSY),
    "READING": Word("Reading the repository", *BUSY),
    "FETCHING": Word("Fetching", *BUSY),
    "READY": Word("Ready", "check", "good"),
    "AVAILABLE": Word("Available", "circle", "soft"),
    "UNSUPPORTED": Word("Not supported", "cross", "bad"),
    "UNAVAILABLE": Word("Not available", "alert", "warn"),
    "WITHDRAWN": Word("Withdrawn", "stop", "soft"),
    "WAITING": Word("Waiting", *WAITING),
    "STARTING": Word("Starting", *BUSY),
    "ANSWERING": Word("Answering", "check", "good"),
    "RESTING": Word("Resting", "stop", "warn"),
    "RELEASED": Word("Given back", "stop", "soft"),
}

TERMS = {
    "base model": "The ready-made model that training starts from. Training leaves it as it is and learns a small "
                  "adapter beside it.",
    "adapter": "The small file of weights that a run learns. Put on top of its base model it is your model.",
    "workload": "One task you want a model for, with the data and the grader that judge every candidate alike.",
    "champion": "The model this workload points to as its best. Promoting moves it.",
    "namespace": "A group of names. A workload's namespace is called as the workload was when it was made.",
    "bundle": "Code and data in one file, kept byte for byte, such as a rule that scores answers.",
    "candidate": "A trained model that might become the champion.",
    "configuration": "Everything that shapes the trained model. Two runs with one configuration hash and base model "
                     "follow the same recipe.",
    "confidence interval": "Where the score would lie in 95 of 100 such sets of rows. Few rows make it wide.",
    "exact match": "The share of rows in which nothing was wrong: every field, where the grader judges fields.",
    "loss": "How surprised the model is by the right answers. Lower is better; falling means learning.",
    "perplexity": "The loss as a number of equally likely next tokens. 1 would be certainty.",
    "validation loss": "The loss on rows the run never trains on. If it rises while the training loss falls, the run "
                       "is memorising.",
    "preference accuracy": "The share of pairs in which the model moved further towards the chosen answer than towards "
                           "the rejected one.",
    "reward margin": "How much further it moved, times beta. Growing means it tells the two apart.",
    "answer rewards": "How far the model moved towards the chosen answers and towards the rejected ones, times beta. "
                      "Both may fall; what counts is that the rejected ones fall further.",
    "reward": "What the terms of the reward gave a completion, weighted and summed; the curve is the mean over an "
              "update's rollouts.",
    "reward term": "One part of the reward. Its share is its score times its weight.",
    "judge": "A model that grades answers. It is held on the box for as long as it is asked.",
    "rollout": "A completion that the run sampled for a prompt and scored.",
    "zero spread": "Prompts whose completions all scored alike. Nothing is learned of them, since completions are "
                   "judged against each other.",
    "KL penalty": "How far the policy is from where it started, by what it would say. The penalty holds it back.",
    "entropy": "How undecided the policy is about its next token. Near zero it says the same thing every time.",
    "completion length": "In tokens. One that reaches the ceiling was cut off.",
    "policy ratio": "How much more likely the updated policy finds a token than the one that sampled it. Beyond the "
                    "bounds it is clipped.",
    "repeated completions": "The share of completions that say what another one of the update says, word for word.",
    "distinct pairs": "How many of all pairs of neighbouring words are different ones. Falling means the policy "
                      "repeats itself.",
    "failed score": "A term that gave no verdict: its completion counts as zero there, or is left out of its group.",
    "two groups": "Most values lie near one of two places, and hardly any between. The mean then describes neither.",
    "reward hacking": "The reward rises, and the answers do not get better: the policy found what the graders miss.",
    "learning rate": "How far each update moves the adapter's weights.",
    "gradient norm": "How hard the last update pulled. Sudden spikes are worth a look.",
    "smoke check": "A run that trains on a few rows until it has them by heart, and must then say them again. One that "
                   "cannot has a problem in its data, its mask or its tokenizer.",
    "LoRA rank": "The width of the adapter. More can learn more, and needs more memory.",
    "LoRA alpha": "The scale of the adapter's effect. Twice the rank is usual.",
    "epoch": "One pass over all training rows.",
    "gradient accumulation": "How many passes are added up before the weights are updated once.",
    "micro batch": "How many rows go through the model at once.",
    "warm-up": "The first share of the run, in which the learning rate rises from zero.",
    "sequence length": "The longest row, in tokens, that the run trains on.",
    "token": "A piece of text, about four characters of English.",
    "packing": "Putting several short rows into one sequence. The rows do not see each other.",
    "gradient checkpointing": "Recomputing parts of the model instead of keeping them: less memory, slower.",
    "snapshot": "A complete save of a run at one update, from which it can go on.",
    "branch": "Another run that starts from one of a run's saves, with its own budget, metrics and model.",
    "training state": "The optimizer, the random generators and the place in the data: what going on exactly needs.",
    "sweep": "A branch for each point of a grid of settings, all from one save.",
    "pipeline": "Train and evaluate stages in order, in one submission.",
    "gate": "The score below which the later stages do not run.",
    "unscored": "Rows for which the grader gave no verdict. They are left out of the mean, never counted as zero.",
    "grader": "What compares an answer with the expected one and gives it a score between 0 and 1.",
    "mark": "What you think of this answer, whatever the grader said. It counts for other graders of the same answer "
            "too.",
    "agreement": "Of the answers that people marked, the share that the grader takes alike: right from a score of one "
                 "half, else wrong.",
    "kappa": "Cohen's kappa: the agreement beyond what chance would give. 1 is full, 0 none; above 0.6 is usually "
             "called good.",
    "data fit": "How the rows fit the run: how many are too long, how many tokens are trained, how much is padding.",
    "device": "What a job runs on: a GPU, or the processors of the box.",
    "paired difference": "The difference of the two models row by row, which is steadier than comparing two means.",
    "trained tokens": "Only the assistant's answer is learned; the rest of the row is context.",
    "estimate": "Worked out before the run starts. Each figure says where it comes from; what cannot be told is "
                "unknown.",
    "peak memory": "The most that the job will hold at once, part by part.",
}

CONCEPTS = {
    "reward": "reward-and-terms", "reward term": "reward-and-terms", "zero spread": "reward-and-terms",
    "KL penalty": "the-policy", "entropy": "the-policy", "completion length": "the-policy",
    "policy ratio": "the-policy", "repeated completions": "the-policy", "distinct pairs": "the-policy",
    "failed score": "failed-scores", "two groups": "how-figures-are-spread",
    "reward hacking": "signs-of-reward-hacking", "rollout": "reading-rollouts",
    "champion": "promotion", "candidate": "promotion", "configuration": "configuration-and-recipe",
    "mark": "agreement-with-people", "agreement": "agreement-with-people", "kappa": "agreement-with-people",
    "confidence interval": "evaluation", "exact match": "evaluation", "unscored": "evaluation",
    "paired difference": "evaluation", "loss": "loss-and-perplexity", "perplexity": "loss-and-perplexity",
    "preference accuracy": "what-it-shows", "reward margin": "what-it-shows", "answer rewards": "what-it-shows",
    "validation loss": "loss-and-perplexity", "gradient norm": "learning-rate", "warm-up": "learning-rate",
    "LoRA rank": "adapter", "LoRA alpha": "adapter", "gradient accumulation": "micro-batch-and-accumulation",
    "micro batch": "micro-batch-and-accumulation", "sequence length": "token", "packing": "token",
    "gradient checkpointing": "peak-memory", "data fit": "trained-tokens", "device": "device-slot-lease",
    "estimate": "estimates", "judge": "judges-of-a-reward",
    "branch": "branches", "training state": "saves", "sweep": "sweeps", "pipeline": "pipelines", "gate": "pipelines",
}
"""The section of a documentation page that explains a term, where it is not called as the term is."""
REWARDED = ("reward", "reward term", "zero spread", "KL penalty", "entropy", "completion length", "policy ratio",
            "repeated completions", "distinct pairs", "failed score", "two groups", "reward hacking", "rollout")
PAGES = {**dict.fromkeys(REWARDED, "rollouts"),
         "mark": "judges", "agreement": "judges", "kappa": "judges",
         "preference accuracy": "preferences", "reward margin": "preferences", "answer rewards": "preferences",
         "gradient checkpointing": "estimates", "peak memory": "estimates", "judge": "estimates", "branch": "lifecycle",
         "training state": "lifecycle", "sweep": "lifecycle", "pipeline": "lifecycle", "gate": "lifecycle",
         "smoke check": "smoke"}
"""The page that explains a term, where it is not the one of concepts."""


def concept_address(term: str) -> str:
    """Where the documentation explains a term."""
    return f"/docs/{PAGES.get(term, 'concepts')}#{CONCEPTS.get(term, term.replace(' ', '-'))}"


def state_word(state: str) -> Word:
    """How a phase or status is shown; an unknown one is shown as it is written, in sentence case."""
    known = STATES.get(state.upper().replace("-", "_"))
    return known or Word(state.replace("_", " ").replace("-", " ").capitalize(), "circle", "soft")


def event_words(type: str) -> str:
    """An event's type as people read it: `run.cancel_requested` is `Cancel requested`."""
    name = type.rpartition(".")[2]
    known = STATES.get(name.upper())
    return known.text if known else name.replace("_", " ").capitalize()
