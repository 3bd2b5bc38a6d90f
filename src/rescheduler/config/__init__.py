"""Configuration: files and flags in, a checked Configuration (and from it a Policy) out, or every error at once."""
