"""The composition root: the only place that wires configuration, readers, planner and loops together.

The commands call it with plain values and get models back; flags, terminals and exit codes stay in `cli`. What a user
can cause is raised as InputError, DumpError, ClusterError or ConfigErrors, whose text is a sentence for people.
"""
