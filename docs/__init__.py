"""The documentation; `docs.generating` makes pages of it from the code."""
