"""Configurations of other tools to convert, and what comes of them."""

from __future__ import annotations

from typing import Any

import yaml

from rescheduler.config.loader import load
from rescheduler.convert.builder import RemarkKind
from rescheduler.convert.convert import convert_text
from rescheduler.strategies import settings_by_name

KNOWN = settings_by_name()
HEADER = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
KOORDINATORS = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"}
LOW = "LowNodeUtilization"
LOAD = "LowNodeLoad"
HIGH = "highThresholds: {cpu: 65, memory: 80}, lowThresholds: {cpu: 45, memory: 60}"


def policy(plugin: str = "", args: str = "{}", evictor: str = "", **top: object) -> str:
    """A DeschedulerPolicy with one plugin and an evictor."""
    configs = [{"name": plugin, "args": yaml.safe_load(args)}] if plugin else []
    if evictor:
        configs.append({"name": "DefaultEvictor", "args": yaml.safe_load(evictor)})
    profile = {"name": "p", "pluginConfig": configs, "plugins": {"deschedule": {"enabled": [plugin] if plugin else []}}}
    return yaml.safe_dump({**HEADER, "profiles": [profile], **top})


def koordinator(plugin: str = "", args: str = "{}", migration: str = "{}", **top: object) -> str:
    """A DeschedulerConfiguration with one plugin and the MigrationController."""
    configs = [{"name": "MigrationController", "args": yaml.safe_load(migration)}]
    if plugin:
        configs.append({"name": plugin, "args": yaml.safe_load(args)})
    enabled = {
        "evict": {"enabled": [{"name": "MigrationController"}]},
        "balance": {"enabled": [{"name": plugin}] if plugin else []},
    }
    profile = {"name": "p", "pluginConfig": configs, "plugins": enabled}
    return yaml.safe_dump({**KOORDINATORS, "profiles": [profile], **top})


def result(text: str) -> dict[str, Any]:
    """The configuration that comes out, which always loads."""
    made = convert_text(text, "policy.yaml", KNOWN).text
    load(made, "result", KNOWN)
    data: dict[str, Any] = yaml.safe_load(made)
    return data


def field(text: str, path: str) -> object:
    at: Any = result(text)
    for part in path.split("."):
        if isinstance(at, list):
            at = at[int(part)]
        elif part.replace("|", ".") in at:
            at = at[part.replace("|", ".")]
        else:
            return None
    return at


def remarks(text: str, sort: RemarkKind) -> list[str]:
    return [str(each) for each in convert_text(text, "policy.yaml", KNOWN).remarks if each.kind is sort]
