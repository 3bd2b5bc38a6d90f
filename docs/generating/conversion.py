"""The tables of docs/coming-over.md: what plugins and options of other tools are called here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rescheduler.convert import descheduler_plugins, koordinator
from rescheduler.convert.descheduler import TOP
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
    "descheduler-evictor": lambda: _list_options(descheduler_plugins.EVICTOR.options),
    "descheduler-policy": lambda: _list_options(TOP),
    "koordinator-plugins": lambda: _list_plugin_options(each for each in koordinator.PLUGINS if each.strategy),
    "koordinator-migration": lambda: _list_options(MIGRATION.options),
    "koordinator-configuration": lambda: _list_options(CONFIGURATION.options),
}
"""By the name that the page asks for."""
