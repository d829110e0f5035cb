"""Scoring answers in a process of its own: for the reward of a reinforcement run and for evaluations alike.

`optimize_site.kernel.scoring.scorer_command` starts it. It reads one JSON object a line and writes one a line;
`protocol` says which. It knows neither the framework nor the database: what it is told stands in its first line.
`terms` says what a scorer is, `makers` which there are.
"""
