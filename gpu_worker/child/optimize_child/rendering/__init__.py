"""Messages as text and tokens: the base model's own chat template, and which of its tokens the loss is taken over."""
