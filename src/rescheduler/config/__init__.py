"""Configuration: files and flags in, a checked Configuration (and from it a Policy) out, or every error at once."""

from rescheduler.config.configuration import Configuration
from rescheduler.config.errors import ConfigError, ConfigErrors
from rescheduler.config.loader import defaults, load, load_file, with_overrides

__all__ = ["ConfigError", "ConfigErrors", "Configuration", "defaults", "load", "load_file", "with_overrides"]
