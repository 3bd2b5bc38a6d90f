"""The vocabulary: rows of cluster objects, quantities, selectors, snapshot, policy, plan. No I/O."""
