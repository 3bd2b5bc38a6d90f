"""Chaos: the controller is killed at every step and its connection is broken in every way; nothing may be lost or left.

`python -m tests.chaos` is the long form, on a real control plane; `tests/e2e/test_kills.py` and `test_faults.py` run
samples of it. docs/chaos.md says what it does and how to read it.
"""
