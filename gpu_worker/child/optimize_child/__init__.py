"""What runs in the job environment: the shepherd, the prepared process, and the entries that prepare, train, answer."""
