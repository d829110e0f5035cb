"""The scored completions of reinforcement runs: kept an update at a time, counted, and looked at."""
