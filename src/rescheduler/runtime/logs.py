"""The log: one line per event on stderr, as text or JSON, with the same fields in both.

Our modules log with structlog. Libraries that use the standard library's logging go through the same formatter.
Objects are written as `namespace/name`.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_ROOT = "rescheduler"


class LogFormat(StrEnum):
    """The format of a line."""

    TEXT = "text"
    JSON = "json"


def configure(form: LogFormat, *, verbose: bool, quiet: bool = False) -> None:
    """Log to stderr in this format; `verbose` includes every command, `quiet` leaves only warnings and errors."""
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _drop_empty,
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
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(form)],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)  # for libraries
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.getLogger(_ROOT).setLevel(level)


def make_wire_logger(name: str, ignored: type[BaseException]) -> logging.Logger:
    """Return the standard logger that aiohttp wants for a server, without records of this exception.

    The exception is for input that is not HTTP: it was answered with 400, and any client can send it.
    """

    def keeps(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], ignored))

    logger = logging.getLogger(name)
    logger.addFilter(keeps)
    return logger


@contextmanager
def forward_warnings(show: Callable[[str], None]) -> Iterator[None]:
    """Hand the messages of warnings and errors to `show`."""

    class Forwarder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            show(record.getMessage())

    handler, logger = Forwarder(logging.WARNING), logging.getLogger(_ROOT)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _renderers(form: LogFormat) -> list[Processor]:
    if form is LogFormat.JSON:
        return [
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("msg"),
            structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
        ]
    return [structlog.processors.format_exc_info, _format_line]


def _drop_empty(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Drop fields without a value."""
    return {key: value for key, value in event.items() if key == "event" or (value is not None and value != "")}


def _format_line(logger: WrappedLogger, method: str, event: EventDict) -> str:
    """Format as `2026-11-15T08:30:00Z INFO  planned moves=3`, with quotes where needed."""
    moment, level, text = event.pop("time"), str(event.pop("level")).upper(), str(event.pop("event"))
    text = text if text.isprintable() else _escape(text)
    trace = event.pop("exception", "")
    fields = " ".join(f"{key}={_quote(value)}" for key, value in event.items())
    return f"{moment} {level:<7} {text}{' ' if fields else ''}{fields}" + (f"\n{trace}" if trace else "")


def _quote(value: object) -> str:
    text = str(value)
    plain = text and text.isprintable() and not any(letter in ' "=' for letter in text)
    return text if plain else _escape(text)


def _escape(text: str) -> str:
    """Quote as in JSON, so that no text of a server starts a new line or colours the terminal."""
    return json.dumps(text, ensure_ascii=not text.isprintable())
