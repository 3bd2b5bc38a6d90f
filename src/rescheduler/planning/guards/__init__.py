"""Guards: what is never disturbed, whatever a strategy wants."""
