"""Measuring a dataset's rows under a base model's tokenizer and chat template, in stretches that merge."""
