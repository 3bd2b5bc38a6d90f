"""Makes a plan from a snapshot and a policy. Pure and synchronous: nothing here acts, waits or reads a clock."""
