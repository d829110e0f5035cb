"""Updates: which rows each has, how they lie before the model, what TRL is told, and where a branch begins."""
