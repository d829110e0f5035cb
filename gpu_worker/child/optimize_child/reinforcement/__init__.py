"""Learning from rewards: prompts rolled out, completions sampled and scored, and the losses of GRPO and GSPO."""
