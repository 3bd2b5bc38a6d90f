"""The loops: watch, plan, migrate, clean up."""
