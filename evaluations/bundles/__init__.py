"""Scoring bundles: functions that people wrote, run in a sandbox of their own.

`scorer` is what a term of the scorer process is made of, `process` the confined process as seen from outside, `visible`
what it sees of the machine, `walls` which walls the machine gives. `inside` is the program that runs confined: it
closes the doors behind itself before it reads a line of the bundle. Standard library alone, no framework, here and
there.
"""
