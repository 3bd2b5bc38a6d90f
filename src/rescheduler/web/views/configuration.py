"""The configuration in force, and every strategy: what it does, whether it is enabled, and how it is set."""

from __future__ import annotations

import inspect
from typing import Any

from rescheduler.config import Configuration
from rescheduler.strategies import discover

Json = dict[str, Any]


def configuration(config: Configuration) -> Json:
    """As `/api/config` gives it."""
    enabled = config.fields.enabled_strategies
    return {
        "yaml": config.effective_yaml(),
        "strategies": [
            {
                "name": name,
                "enabled": name in enabled,
                "about": _first_paragraph(inspect.getdoc(strategy) or ""),
                "settings": config.settings[name].model_dump(mode="json", by_alias=True),
            }
            for name, strategy in discover().items()
        ],
    }


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())
