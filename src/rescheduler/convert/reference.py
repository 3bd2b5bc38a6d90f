"""What plugins and options of other tools are called here, for errors in configurations."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rescheduler.convert import descheduler_plugins, koordinator
from rescheduler.convert.descheduler import TOP
from rescheduler.convert.descheduler_plugins import EVICTOR

_PLUGINS = (*descheduler_plugins.PLUGINS, *koordinator.PLUGINS)
_BESIDES = {"LowNodeUtilization": ("LoadBalancing",)}
STRATEGIES = {
    plugin.name: (plugin.strategy, *_BESIDES.get(plugin.name, ()))
    for plugin in _PLUGINS
    if plugin.strategy and plugin.strategy != plugin.name
}
"""Our strategies by the plugin's name."""


def _collect_fields() -> Iterator[tuple[str, str]]:
    for option in (*(each for plugin in _PLUGINS for each in plugin.options), *EVICTOR.options, *TOP):
        for path in option.here:
            field = path.rpartition(".")[2]
            if field != option.name:
                yield option.name, field


FIELDS: dict[str, list[str]] = {}
"""Our fields by the option's name."""
for _name, _field in _collect_fields():
    FIELDS.setdefault(_name, []).append(_field)
FIELDS["resourceWeights"] = ["weights"]


def suggest_field(name: str, fields: Collection[str]) -> str:
    """Return `, here it is maxAge;` if an option of another tool has this name, and a counterpart among the fields."""
    ours = [each for each in dict.fromkeys(FIELDS.get(name, ())) if each in fields]
    return f", here it is {' and '.join(ours)};" if ours else ""


def suggest_strategy(name: str, known: Collection[str]) -> str:
    """Return `, here it is NodeTaints;` if a plugin of another tool has this name, and a known counterpart."""
    ours = [each for each in STRATEGIES.get(name, ()) if each in known]
    return f", here it is {' and '.join(ours)};" if ours else ""
