"""The controllers of the embedded cluster: one file a kind. Each says what concerns it and what to do about one key."""
