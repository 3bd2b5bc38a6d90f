"""What several predicates share."""
