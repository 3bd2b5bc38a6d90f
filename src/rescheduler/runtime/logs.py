"""The controller's log: one line an event on stderr, for people or as JSON, with the same fields in both.

`rescheduler run` sets it up. Modules that log by the standard library go through the same lines. Objects are written as
`namespace/name`.
"""

from __future__ import annotations

import json
import logging
import sys
from enum import StrEnum

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger


class LogFormat(StrEnum):
    """How a line is written."""

    TEXT = "text"
    JSON = "json"


def configure(form: LogFormat, *, verbose: bool) -> None:
    """Send everything that is logged to stderr in this form; `verbose` tells each command, too."""
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _without_nothing,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_written(form)],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)  # of the libraries
    logging.getLogger("rescheduler").setLevel(logging.DEBUG if verbose else logging.INFO)


def _written(form: LogFormat) -> list[Processor]:
    if form is LogFormat.JSON:
        return [
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("msg"),
            structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
        ]
    return [structlog.processors.format_exc_info, _line]


def _without_nothing(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Fields that have no value say nothing; what happened is told even where it has no words."""
    return {key: value for key, value in event.items() if key == "event" or (value is not None and value != "")}


def _line(logger: WrappedLogger, method: str, event: EventDict) -> str:
    """`2026-11-15T08:30:00Z INFO  planned moves=3`, with what needs it in quotes."""
    moment, level, told = event.pop("time"), str(event.pop("level")).upper(), str(event.pop("event"))
    told = told if told.isprintable() else _escaped(told)
    trace = event.pop("exception", "")
    fields = " ".join(f"{key}={_quoted(value)}" for key, value in event.items())
    return f"{moment} {level:<7} {told}{' ' if fields else ''}{fields}" + (f"\n{trace}" if trace else "")


def _quoted(value: object) -> str:
    text = str(value)
    plain = text and text.isprintable() and not any(letter in ' "=' for letter in text)
    return text if plain else _escaped(text)


def _escaped(text: str) -> str:
    """In quotes, as JSON has it: nothing that a server says makes a line of its own, or colours the terminal."""
    return json.dumps(text, ensure_ascii=not text.isprintable())
