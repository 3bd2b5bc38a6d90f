"""The configuration in force, and every strategy: what it does, whether it is enabled, and how it is set.

And what the file says now, where that is not in force: why it was refused, or which fields wait for a restart.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from rescheduler.config import Configuration
from rescheduler.model.policy import Policy
from rescheduler.planning.settings import Settings
from rescheduler.runtime.mandate import Mandate, Refusal
from rescheduler.strategies import discover

Json = dict[str, Any]
_MOST = 50  # errors that are shown


def configuration(mandate: Mandate) -> Json:
    """As `/api/config` gives it."""
    config = mandate.config
    policy = mandate.policy()
    return {
        "since": mandate.since,
        "waiting": list(mandate.waiting),
        "refusal": _refusal(mandate.refusal),
        "yaml": config.effective_yaml(),
        "strategies": [
            {
                "name": name,
                "enabled": name in policy.enabled_strategies,
                "about": _first_paragraph(inspect.getdoc(strategy) or ""),
                "settings": _settings(config.settings, name),
                "pools": _in_pools(config, policy, name),
            }
            for name, strategy in discover().items()
        ],
        "pools": [
            {
                "name": pool.name,
                "nodeSelector": fields.node_selector,
                "thresholds": pool.thresholds.named(),
                "mode": pool.thresholds.mode.value,
                "enabled": list(pool.enabled_strategies),
            }
            for pool, fields in zip(policy.pools, config.fields.pools, strict=True)
        ],
    }


def _settings(settings: Mapping[str, Settings], name: str) -> Json:
    """Of one strategy; nothing where it is not enabled and lacks a setting that it cannot do without."""
    found = settings.get(name)
    return {} if found is None else found.model_dump(mode="json", by_alias=True)


def _in_pools(config: Configuration, policy: Policy, name: str) -> Json:
    """By pool, whether it runs there, and its settings as far as they are not those at the top."""
    top = _settings(config.settings, name)
    found = {}
    for pool, settings in zip(policy.pools, config.pools, strict=True):
        own = {key: value for key, value in _settings(settings, name).items() if top.get(key) != value}
        found[pool.name] = {"enabled": name in pool.enabled_strategies, "settings": own}
    return found


def _refusal(refusal: Refusal | None) -> Json | None:
    """When, and the errors: not in which file, because whoever looks need not know our paths."""
    if refusal is None:
        return None
    told = [each.in_file for each in refusal.errors[:_MOST]]
    return {"at": refusal.at, "errors": told, "more": len(refusal.errors) - len(told)}


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())
