"""Failed pods, purely: what counts, what is recorded, what is done."""
