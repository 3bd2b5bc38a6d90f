"""Configurations of other tools, brought to the native form: descheduler's policy, koordinator's, the seed's.

`cli.convert` calls `converting.converted`. The tables of plugins and options here are the one truth about what is
called how: `config.foreign` and the tables of docs/coming-over.md are made from them.
"""
