"""The controllers of the embedded cluster: one file per kind. Each maps changes to keys and reconciles one key."""
