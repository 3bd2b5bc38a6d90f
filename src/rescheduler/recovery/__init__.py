"""Recovery of failed pods, without side effects: which failures count, what is recorded, and what is done."""
