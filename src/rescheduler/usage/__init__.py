"""Where utilisation comes from. By requests alone so far, which the planner sums itself; measured usage comes here."""
