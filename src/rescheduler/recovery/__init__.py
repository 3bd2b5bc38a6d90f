"""Failed pods, purely: which failures count, what is kept of them on the workload, and what is done about them."""
