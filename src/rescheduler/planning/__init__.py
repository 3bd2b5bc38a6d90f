"""Pure and synchronous: from a snapshot and a policy to a plan; nothing here acts, waits or reads a clock."""
