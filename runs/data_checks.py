"""What a run's datasets, its truncation and its loss are refused for. Pure; each check names its field."""

from collections.abc import Iterator, Mapping
from typing import Any

from optimize_site.kernel.errors import Problem
from runs.descriptor import REINFORCEMENT, RunDescriptor, method_of
from runs.facts import BaseModelFacts, DatasetFacts, Facts

CHAT, PREFERENCE, PREPARED = "chat-jsonl-v1", "preference-jsonl-v1", "prepared-tokens-v1"
READS = {"sft": (CHAT, PREPARED), "dpo": (PREFERENCE,), "grpo": (CHAT,), "gspo": (CHAT,)}
TRIMMING = frozenset({"oldest", "oldest_or_drop"})
NEEDS_ALL = frozenset({"drop", *TRIMMING})
MASK_HINT = ("Set data.truncation to error, or set loss.explicitLossMaskColumn and provide masks that exclude every "
             "token past maxSeqLength.")
OF_A_ROW = ("messages", "tools")
MOST_COLUMNS = 10
TRUNCATION, COLUMN = "config.data.truncation", "config.loss.explicitLossMaskColumn"
PREPARE_AGAIN = ("Render the rows again under the run's template, describe them with `./optimize datasets "
                 "describe-prepared`, and register the new version.")


def check_run_data(descriptor: RunDescriptor, config: Mapping[str, Any], facts: Facts) -> Iterator[Problem]:
    """Everything about a run's data: its datasets, what happens to long rows, and the mask column."""
    method = method_of(descriptor)
    yield from check_datasets(facts, method)
    if "data" in config:
        yield from check_truncation(config, facts, is_smoke=descriptor.smoke is not None)
        yield from check_mask_column(config, facts, method)
        yield from check_packing(config, facts)


def check_datasets(facts: Facts, method: str) -> Iterator[Problem]:
    """Each dataset holds what the method reads, and validation is not training."""
    for path, dataset in _datasets(facts):
        yield from _check_format(path, dataset, method)
        yield from _check_images(path, dataset, method, facts.base_model)
        if facts.base_model is not None:
            yield from check_prepared(path, dataset, facts.base_model)
    yield from _check_tools(facts)
    if method in REINFORCEMENT:
        yield from _check_rollout_tools(facts, method)
        yield from _check_answers(facts, method)
    if facts.dataset and facts.validation and facts.dataset.content_hash == facts.validation.content_hash:
        yield Problem("config.data.validationDataset", "validation_is_training", f"The validation dataset "
                      f"{facts.validation.reference} holds the same examples as the training dataset "
                      f"{facts.dataset.reference}.", "Hold some rows back with `./optimize datasets split`.")


def _datasets(facts: Facts) -> list[tuple[str, DatasetFacts]]:
    named = (("config.dataset", facts.dataset), ("config.data.validationDataset", facts.validation))
    return [(path, dataset) for path, dataset in named if dataset is not None]


def _check_format(path: str, dataset: DatasetFacts, method: str) -> Iterator[Problem]:
    if dataset.format not in READS[method]:
        yield Problem(path, "wrong_format", f"{dataset.reference} is {dataset.format}; the method {method} reads "
                      f"{' or '.join(READS[method])}.", "Name a dataset of that format.")


def _check_images(path: str, dataset: DatasetFacts, method: str, base: BaseModelFacts | None) -> Iterator[Problem]:
    if not dataset.num_images or dataset.format != CHAT:
        return
    if method in REINFORCEMENT:
        yield Problem(path, "images_not_read", f"{dataset.reference} holds {dataset.num_images} images; the method "
                      f"{method} reads text.", "Name a dataset without images.")
    elif base is not None and base.entry.modality != "image-text":
        yield Problem(path, "images_not_read", f"{dataset.reference} holds {dataset.num_images} images, and "
                      f"{base.entry.repository} reads text.", "Choose an image-text base model, or a dataset without "
                      "images.")


def _check_tools(facts: Facts) -> Iterator[Problem]:
    """A run over images renders every row without its tools. A version whose tool rows were not counted passes."""
    pages = next((dataset.reference for _, dataset in _datasets(facts) if dataset.num_images), "")
    for path, dataset in _datasets(facts) if pages else []:
        if dataset.num_tool_rows:
            rows = "1 row that offers" if dataset.num_tool_rows == 1 else f"{dataset.num_tool_rows} rows that offer"
            yield Problem(path, "tools_with_images", f"{dataset.reference} has {rows} tools, and under trl or verl a "
                          f"run over the images of {pages} renders no tools: it would train unlike evaluation and "
                          "serving.",
                          "Remove the tools from every row, or train the rows with images in a run of their own.")


def _check_rollout_tools(facts: Facts, method: str) -> Iterator[Problem]:
    """Neither engine renders a row's tools into the prompt that it rolls out."""
    for path, dataset in _datasets(facts):
        if dataset.num_tool_rows and not dataset.num_images:
            rows = "1 row that offers" if dataset.num_tool_rows == 1 else f"{dataset.num_tool_rows} rows that offer"
            yield Problem(path, "tools_not_rolled_out", f"{dataset.reference} has {rows} tools, and a {method} run "
                          "under trl or verl rolls out prompts without them: it would train unlike evaluation and "
                          "serving.", "Remove the tools from every row.")


def _check_answers(facts: Facts, method: str) -> Iterator[Problem]:
    """A reward compares texts. A version whose answers were not counted passes, and its job refuses the row."""
    for path, dataset in _datasets(facts):
        if dataset.num_call_answers:
            rows = "1 row whose answer calls" if dataset.num_call_answers == 1 \
                else f"{dataset.num_call_answers} rows whose answer calls"
            yield Problem(path, "answer_calls_tools", f"{dataset.reference} has {rows} tools; a {method} run compares "
                          "an answer's text.", "Remove these rows, or train on them with the method sft.")


def check_prepared(path: str, dataset: DatasetFacts, base: BaseModelFacts) -> Iterator[Problem]:
    """Prepared rows were made for the run's tokenizer, under the template that the run renders under."""
    if dataset.format != PREPARED:
        return
    if dataset.tokenizer and dataset.tokenizer != base.entry.repository:
        yield Problem(path, "prepared_for_another_model", f"The rows of {dataset.reference} were prepared with the "
                      f"tokenizer of {dataset.tokenizer}, and the run trains {base.entry.repository}.", PREPARE_AGAIN)
    elif dataset.chat_template_sha256 and base.chat_template_sha256 and \
            dataset.chat_template_sha256 != base.chat_template_sha256:
        yield Problem(path, "prepared_under_another_template", f"The rows of {dataset.reference} were rendered under "
                      f"the chat template {dataset.chat_template_sha256}, and the run renders under "
                      f"{base.chat_template_sha256}.", PREPARE_AGAIN)


def check_truncation(config: Mapping[str, Any], facts: Facts, *, is_smoke: bool) -> Iterator[Problem]:
    """`right` never cuts an answer; whole turns are removed from text alone; a smoke check reads every row."""
    truncation = config["data"]["truncation"]
    if truncation == "right" and config["loss"]["explicitLossMaskColumn"] is None:
        yield Problem(TRUNCATION, "cuts_the_answer", "data.truncation is right without an explicit mask; cutting "
                      "tokens from the end would shorten the answer.", MASK_HINT)
    if truncation in NEEDS_ALL and is_smoke:
        yield Problem(TRUNCATION, "truncation_with_smoke", f"data.truncation is {truncation} in a smoke check, which "
                      "trains on its rows as they are.", "Set data.truncation to error.")
    for _, dataset in _datasets(facts) if truncation in TRIMMING else []:
        if dataset.num_images or dataset.format == PREPARED:
            held = f"{dataset.num_images} images" if dataset.num_images else "prepared token rows"
            yield Problem(TRUNCATION, "truncation_needs_text", f"data.truncation is {truncation}, and "
                          f"{dataset.reference} holds {held}; only turns of text are removed.",
                          "Set data.truncation to error or drop.")


def check_mask_column(config: Mapping[str, Any], facts: Facts, method: str) -> Iterator[Problem]:
    """An explicit mask has an entry for each token of a text chat row."""
    column = config["loss"]["explicitLossMaskColumn"]
    if column is None:
        return
    if method != "sft":
        yield Problem(COLUMN, "does_not_apply", f"loss.explicitLossMaskColumn does not apply to the method {method}.",
                      "Leave it out.")
    elif column in OF_A_ROW:
        yield Problem(COLUMN, "not_a_mask", f"loss.explicitLossMaskColumn is {column}, which is a row's own and holds "
                      "no mask.", "Name the key under which rows hold a mask of 0 and 1, or leave it out.")
    for _, dataset in _datasets(facts):
        if dataset.num_images or dataset.format == PREPARED:
            held = f"{dataset.num_images} images" if dataset.num_images else "prepared token rows with their own masks"
            yield Problem(COLUMN, "mask_needs_text", f"loss.explicitLossMaskColumn is {column}, and "
                          f"{dataset.reference} holds {held}; the column is read from text chat rows.",
                          "Leave it out.")
        elif method == "sft" and column not in OF_A_ROW and dataset.columns is not None \
                and not dataset.columns.get(column):
            yield _no_mask(column, dataset)


def _no_mask(column: str, dataset: DatasetFacts) -> Problem:
    held = ", ".join(list(dataset.columns or {})[:MOST_COLUMNS])
    return Problem(COLUMN, "no_row_has_a_mask", f"loss.explicitLossMaskColumn is {column}, and no row of "
                   f"{dataset.reference} carries a mask in it; "
                   f"{f'its rows hold {held}' if held else 'its rows hold messages and tools alone'}.",
                   "Correct the name or the masks, or leave loss.explicitLossMaskColumn out to use the other loss "
                   "settings.")


def check_packing(config: Mapping[str, Any], facts: Facts) -> Iterator[Problem]:
    """A row with images is a sequence of its own."""
    pages = next((dataset for _, dataset in _datasets(facts) if dataset.num_images), None)
    if pages is not None and config["data"]["packing"]:
        yield Problem("config.data.packing", "packing_needs_text", f"data.packing is true, and {pages.reference} holds "
                      f"{pages.num_images} images; only rows of text are packed.", "Set data.packing to false.")


def warn_of_data(config: Mapping[str, Any], facts: Facts) -> list[dict[str, str]]:
    """What stops nothing: what nobody can tell of the rows before a job reads them."""
    return [*_unknown_templates(facts), *_unknown_masks(config, facts)]


def _unknown_masks(config: Mapping[str, Any], facts: Facts) -> list[dict[str, str]]:
    column = (config.get("loss") or {}).get("explicitLossMaskColumn")
    return [{"code": "masks_not_counted", "message": f"Whether a row of {dataset.reference} carries a mask in {column} "
             "was not counted when it was registered; a run without one is refused by its job."}
            for _, dataset in _datasets(facts) if column and dataset.format == CHAT and dataset.columns is None]


def _unknown_templates(facts: Facts) -> list[dict[str, str]]:
    """Prepared rows that nobody can compare with the run's template."""
    return [{"code": "prepared_without_template", "message": f"The rows of {dataset.reference} name no chat template; "
             "whether they are what the run's model is asked with cannot be told."}
            for _, dataset in _datasets(facts) if dataset.format == PREPARED and not dataset.chat_template_sha256]
