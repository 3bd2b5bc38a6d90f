"""The tables of docs/coming-over.md, made from those by which configurations are converted.

docs/generate.py asks for rows. What an option is called here, and what is different, is said beside the code that
brings it over, so that the page cannot say anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rescheduler.convert import descheduler_plugins, koordinator
from rescheduler.convert.descheduler import TOP
from rescheduler.convert.evictor import EVICTOR
from rescheduler.convert.koordinator import CONFIGURATION, MIGRATION
from rescheduler.convert.values import Option, Plugin

Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""The headers of a table, and its rows."""
_OPTIONS = ("option", "here", "what is different")


def _plugins() -> Rows:
    rows: list[tuple[str, ...]] = [
        (f"`{plugin.name}`", tool, f"`{plugin.strategy}`" if plugin.strategy else "no counterpart", plugin.words)
        for tool, plugins in (
            ("descheduler", descheduler_plugins.PLUGINS),
            ("koordinator", koordinator.PLUGINS),
        )
        for plugin in plugins
    ]
    return ("plugin", "of", "strategy here", "what is different"), rows


def _of_plugins(plugins: Iterable[Plugin]) -> Rows:
    rows: list[tuple[str, ...]] = [
        (f"`{plugin.name}`", *_row(option)) for plugin in plugins for option in plugin.options
    ]
    return ("plugin", *_OPTIONS), rows


def _of_options(options: Iterable[Option]) -> Rows:
    return _OPTIONS, [_row(option) for option in options]


def _row(option: Option) -> tuple[str, str, str]:
    here = ", ".join(f"`{path}`" for path in option.here)
    if here:
        return f"`{option.name}`", here, option.words
    return f"`{option.name}`", "" if option.words else "no counterpart", option.words


TABLES: dict[str, Callable[[], Rows]] = {
    "plugins": _plugins,
    "descheduler-plugins": lambda: _of_plugins(descheduler_plugins.PLUGINS),
    "descheduler-evictor": lambda: _of_options(EVICTOR.options),
    "descheduler-policy": lambda: _of_options(TOP),
    "koordinator-plugins": lambda: _of_plugins(each for each in koordinator.PLUGINS if each.strategy),
    "koordinator-migration": lambda: _of_options(MIGRATION.options),
    "koordinator-configuration": lambda: _of_options(CONFIGURATION.options),
}
"""By the name under which the page asks for them."""
