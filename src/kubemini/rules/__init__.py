"""What holds for the objects of each kind: one file a kind or family, found by `table.rules_of`."""
