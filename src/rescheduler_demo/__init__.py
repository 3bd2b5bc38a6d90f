"""`rescheduler demo`, put together: an embedded cluster with a lively workload, and the real controller on it.

`stage` puts the parts together in one event loop; one module a scenario says what the cluster looks like, what happens
when, and how it is known that its goal is reached. `cli.demo` shows what comes of it; nothing here knows of terminals.
"""
