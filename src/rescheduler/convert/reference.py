"""What plugins and options of other tools are called here, for docs/coming-over.md and for errors in configurations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from rescheduler.convert import descheduler_plugins, koordinator
from rescheduler.convert.descheduler import TOP
from rescheduler.convert.evictor import EVICTOR
from rescheduler.convert.koordinator import CONFIGURATION, MIGRATION
from rescheduler.convert.values import Option, Plugin

Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""The headers of a table, and its rows."""
_OPTIONS = ("option", "here", "what is different")


def _list_plugins() -> Rows:
    rows: list[tuple[str, ...]] = [
        (f"`{plugin.name}`", tool, f"`{plugin.strategy}`" if plugin.strategy else "no counterpart", plugin.words)
        for tool, plugins in (("descheduler", descheduler_plugins.PLUGINS), ("koordinator", koordinator.PLUGINS))
        for plugin in plugins
    ]
    return ("plugin", "of", "strategy here", "what is different"), rows


def _list_plugin_options(plugins: Iterable[Plugin]) -> Rows:
    rows: list[tuple[str, ...]] = [
        (f"`{plugin.name}`", *_format_row(option)) for plugin in plugins for option in plugin.options
    ]
    return ("plugin", *_OPTIONS), rows


def _list_options(options: Iterable[Option]) -> Rows:
    return _OPTIONS, [_format_row(option) for option in options]


def _format_row(option: Option) -> tuple[str, str, str]:
    here = ", ".join(f"`{path}`" for path in option.here)
    if here:
        return f"`{option.name}`", here, option.words
    return f"`{option.name}`", "" if option.words else "no counterpart", option.words


TABLES: dict[str, Callable[[], Rows]] = {
    "plugins": _list_plugins,
    "descheduler-plugins": lambda: _list_plugin_options(descheduler_plugins.PLUGINS),
    "descheduler-evictor": lambda: _list_options(EVICTOR.options),
    "descheduler-policy": lambda: _list_options(TOP),
    "koordinator-plugins": lambda: _list_plugin_options(each for each in koordinator.PLUGINS if each.strategy),
    "koordinator-migration": lambda: _list_options(MIGRATION.options),
    "koordinator-configuration": lambda: _list_options(CONFIGURATION.options),
}
"""By the name that the page asks for."""


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
