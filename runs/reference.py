"""The descriptor's reference page: `python -m runs.reference > docs/reference/descriptor.md` writes it."""

from runs.descriptor import reference_rows

INTRODUCTION = """# The run descriptor

`./optimize runs start -f run.yaml` reads a descriptor, as JSON or YAML. The smallest one:

```yaml
kind: run
workload: triage
baseModel: HuggingFaceTB/SmolLM2-135M-Instruct
config:
  dataset: triage/train
```

Every field that is left out takes its default; writing a default out changes nothing, not even the configuration's
hash. A field nobody knows is refused by name, and all mistakes are told at once. `runs start --dry-run --show-resolved`
shows every setting with the value it would train at.

- `config` says what is trained. Its hash, with the base model, is the recipe: two runs of one recipe are comparable.
- `execution` says how. It is recorded, and outside the hash.
- `maxSeqLength` and numbers of `hyperparams` and `execution` that are stated as zero take their default. In
  `rlHyperparams`, `klBeta`, `temperature`, `maxSteps` and `stalenessThreshold` keep a zero. A negative number is
  refused.
- A refusal names a hyperparameter by its group, `optimizer.weightDecay`, and any other field by its path.

## The batch

One update takes `microBatchPerGpu × gradientAccumulation` sequences. Where neither is stated, a pass is the largest of
8, 4, 2 and 1 sequences whose tokens (times `maxSeqLength`) fit 4096, accumulated to 8 sequences. Where one is stated,
the other is 8 divided by it, rounded up. Both stand in the resolved configuration. `execution.microBatchSequences`
lowers only how many sequences go through at once, a preference pair being two; the update stays the same.

## What runs in this version

`sft`, [`dpo`](../preferences.md), and [`grpo` and `gspo`](../reinforcement.md) under `trl`, on one device, and
[smoke checks](../smoke.md) of `sft`. `verl` is read and checked the same, and then refused by name. What becomes of
rows that are too long, of masks and of prepared rows stands in [rows](../rows.md).

## Fields
"""


def descriptor_page() -> str:
    """The page: an introduction, then a table of fields for each group."""
    parts = [INTRODUCTION]
    for group, rows in _groups().items():
        parts.append(f"\n### {group or 'Top level'}\n\n| field | kind | default | meaning |\n|---|---|---|---|\n")
        parts += [f"| `{row['path'].rpartition('.')[2]}` | {row['kind']} | {row['default']} | {row['meaning']} |\n"
                  for row in rows]
    return "".join(parts)


def _groups() -> dict[str, list[dict[str, str]]]:
    groups: dict[str, list[dict[str, str]]] = {}
    for row in reference_rows():
        groups.setdefault(row["path"].rpartition(".")[0], []).append(row)
    return groups


if __name__ == "__main__":
    print(descriptor_page(), end="")
