"""What other deschedulers call our strategies and fields, so that whoever comes from there is told where to find them.

`checks` asks when a strategy is not known, `translation` when a field is not. The names are those of the tables by
which `rescheduler convert` goes (`conversion`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rescheduler.config.conversion import descheduler_plugins, koordinator_plugins
from rescheduler.config.conversion.evictor import OPTIONS as GUARDING
from rescheduler.config.conversion.options import Option
from rescheduler.config.conversion.policy import TOP

_PLUGINS = (*descheduler_plugins.PLUGINS, *koordinator_plugins.PLUGINS)
_BESIDES = {"LowNodeUtilization": ("LoadBalancing",)}

OURS = {
    plugin.name: (plugin.strategy, *_BESIDES.get(plugin.name, ()))
    for plugin in _PLUGINS
    if plugin.strategy and plugin.strategy != plugin.name
}
"""By the plugin's name; those of descheduler first, then koordinator's."""


def _options() -> Iterator[Option]:
    for plugin in _PLUGINS:
        yield from plugin.options
    yield from (*GUARDING, *TOP)


def _fields() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for option in _options():
        for path in option.here:
            field = path.rpartition(".")[2]
            if field != option.name:
                found.setdefault(option.name, {})[field] = None
    return {name: tuple(fields) for name, fields in found.items()}


FIELDS = {**_fields(), "resourceWeights": ("weights",)}
"""Fields by the option's name; only those count that the place has where the option was given."""


def field_here(name: str, fields: Collection[str]) -> str:
    """`, here it is maxAge;`, or nothing if it is no such option, or the place has none of what it is called here."""
    ours = [each for each in FIELDS.get(name, ()) if each in fields]
    return f", here it is {' and '.join(ours)};" if ours else ""


def translated(name: str, known: Collection[str]) -> str:
    """`, here it is NodeTaints;`, or nothing if it is no such name, or what it is called here is not known."""
    ours = [each for each in OURS.get(name, ()) if each in known]
    return f", here it is {' and '.join(ours)};" if ours else ""
