"""The text formats that a CustomResourceDefinition may ask for (`format: date-time`), and whether a text has one.

Formats that are not listed here are no constraint, as in Kubernetes, where an unknown format is ignored.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime
from urllib.parse import urlsplit

INTEGER_LIMITS = {"int32": 2**31, "int64": 2**63}
"""Below which a whole number of a format must be, and from the negative of which on."""

_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*|0")
_LONG_DURATION = re.compile(r"\d+ *(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)s?")
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+")
_HOSTNAME = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)*\.?"
)
_MAC = re.compile(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[-+]\d{2}:\d{2})")


def _parses(read: Callable[[str], object]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            read(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return fits


def _matches(*patterns: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: any(pattern.fullmatch(text) for pattern in patterns)


def _moment(text: str) -> bool:
    return bool(_MOMENT.fullmatch(text)) and _parses(datetime.fromisoformat)(text.upper())


def _uri(text: str) -> bool:
    try:
        return bool(urlsplit(text).scheme) or text.startswith("/")
    except ValueError:
        return False


def _uuid_of(version: int) -> Callable[[str], bool]:
    return lambda text: _parses(uuid.UUID)(text) and (not version or uuid.UUID(text).version == version)


FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _moment,
    "datetime": _moment,
    "date": lambda text: len(text) == len("2026-01-01") and _parses(date.fromisoformat)(text),
    "duration": _matches(_DURATION, _LONG_DURATION),
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "uuid": _uuid_of(0),
    "uuid3": _uuid_of(3),
    "uuid4": _uuid_of(4),
    "uuid5": _uuid_of(5),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": lambda text: "/" in text and _parses(ipaddress.ip_interface)(text),
    "mac": _matches(_MAC),
    "email": _matches(_EMAIL),
    "hostname": _matches(_HOSTNAME),
    "uri": _uri,
}
