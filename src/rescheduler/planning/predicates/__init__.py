"""The scheduler's rules, one module a subject: each answers for all nodes at once, and in words for one node."""
