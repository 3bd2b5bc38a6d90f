"""`rescheduler demo`: the real controller at work on an embedded cluster, in this process.

`command` is the click command, and `session` runs it. `runner` starts the cluster, fills it, runs the controller and
one of `scenarios`; `plain` and `live` show what happens.
"""
