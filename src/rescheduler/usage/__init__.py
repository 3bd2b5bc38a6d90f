"""Measured usage: where it comes from, and how samples of it become one number (docs/usage.md)."""
