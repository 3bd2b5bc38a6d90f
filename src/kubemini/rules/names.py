"""What Kubernetes allows as names: of objects, labels, ports, keys and the like.

Each function takes a text and answers with what is wrong with it, in Kubernetes' words; nothing means that it is fine.
The rules of all kinds use them. Checked names are remembered, because a cluster's labels repeat thousands of times.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

Details = tuple[str, ...]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_KEY})?"
_DATA_KEY = r"[-._a-zA-Z0-9]+"
_HEADER = r"[-A-Za-z0-9]+"
_PERCENT = r"[0-9]+%"

_label = re.compile(_LABEL, re.ASCII)
_subdomain = re.compile(_SUBDOMAIN, re.ASCII)
_underscored = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*", re.ASCII)
_label_1035 = re.compile(_LABEL_1035, re.ASCII)
_key = re.compile(_KEY, re.ASCII)
_value = re.compile(_VALUE, re.ASCII)
_data_key = re.compile(_DATA_KEY, re.ASCII)
_header = re.compile(_HEADER, re.ASCII)
_percent = re.compile(_PERCENT, re.ASCII)
_port_name = re.compile(r"[-a-z0-9]+", re.ASCII)

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_LABEL_1035}')"
)
_KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '{_VALUE}')"
)
_DATA_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    f"or 'key-name', regex used for validation is '{_DATA_KEY}')"
)


@lru_cache(maxsize=65536)
def subdomain(text: str) -> Details:
    """What is wrong with a DNS subdomain, as most objects are named."""
    return _sized(text, 253) + (() if _subdomain.fullmatch(text) else (_SUBDOMAIN_RULE,))


@lru_cache(maxsize=65536)
def label(text: str) -> Details:
    """What is wrong with a DNS label, as containers, volumes and namespaces are named."""
    if _label.fullmatch(text):
        return _sized(text, 63)
    return (*_sized(text, 63), "must not contain dots" if _subdomain.fullmatch(text) else _LABEL_RULE)


def label_1035(text: str) -> Details:
    """What is wrong with a DNS label that starts with a letter."""
    return _sized(text, 63) + (() if _label_1035.fullmatch(text) else (_LABEL_1035_RULE,))


def underscored_subdomain(text: str) -> Details:
    """What is wrong with a DNS search domain, where underscores are allowed."""
    return _sized(text, 253) + (() if _underscored.fullmatch(text) else (_SUBDOMAIN_RULE,))


def as_prefix(text: str) -> str:
    """A `generateName` as if letters followed: a dash may be its last character."""
    return text[:-1] + "a" if text.endswith("-") and len(text) > 1 else text


@lru_cache(maxsize=65536)
def label_key(text: str) -> Details:
    """What is wrong with the key of a label, or with any other qualified name."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_KEY_RULE} {example}",)
    found: list[str] = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += [f"prefix part {detail}" for detail in subdomain(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _key.fullmatch(name):
        found.append(f"name part {_KEY_RULE}")
    return tuple(found)


@lru_cache(maxsize=65536)
def label_value(text: str) -> Details:
    """What is wrong with the value of a label."""
    return _sized(text, 63, "bytes") + (() if _value.fullmatch(text) else (_VALUE_RULE,))


def fully_qualified(text: str) -> Details:
    """What is wrong with the name of a webhook: a domain of three parts or more."""
    if details := subdomain(text):
        return (",".join(details),)
    if text.count(".") < 2:
        return ("should be a domain with at least three segments separated by dots",)
    return ()


def data_key(text: str) -> Details:
    """What is wrong with a key of a ConfigMap or a Secret."""
    return _sized(text, 253) + (() if _data_key.fullmatch(text) else (_DATA_KEY_RULE,)) + _upwards(text)


def variable(text: str) -> Details:
    """What is wrong with the name of an environment variable."""
    if all(" " <= letter <= "~" and letter != "=" for letter in text):
        return ()
    return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)


def port_name(text: str) -> Details:
    """What is wrong with the name of a port."""
    found = list(_sized(text, 15))
    if not _port_name.fullmatch(text):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= letter <= "z" for letter in text):
        found.append("must contain at least one letter (a-z)")
    if "--" in text:
        found.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return tuple(found)


def port_number(number: int) -> Details:
    """What is wrong with the number of a port."""
    return in_range(number, 1, 65535)


def port(number_or_name: int | str) -> Details:
    """What is wrong with a port that is given by number or by name."""
    return port_number(number_or_name) if isinstance(number_or_name, int) else port_name(number_or_name)


def in_range(number: int, least: int, most: int) -> Details:
    """What is wrong with a number that has bounds."""
    return () if least <= number <= most else (f"must be between {least} and {most}, inclusive",)


def header(text: str) -> Details:
    """What is wrong with the name of an HTTP header."""
    if _header.fullmatch(text):
        return ()
    rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return (f"{rule} (e.g. 'X-Header-Name', regex used for validation is '{_HEADER}')",)


def percent(text: str) -> Details:
    """What is wrong with a percentage."""
    if _percent.fullmatch(text):
        return ()
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return (f"{rule} (e.g. '1%',  or '93%', regex used for validation is '{_PERCENT}')",)


def address(text: str) -> Details:
    """What is wrong with an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return ("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",)
    return ()


def network(text: str) -> Details:
    """What is wrong with a network in CIDR notation."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return ("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",)
    return () if "/" in text else ("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",)


def _sized(text: str, most: int, unit: str = "characters") -> Details:
    return (f"must be no more than {most} {unit}",) if len(text) > most else ()


def _upwards(text: str) -> Details:
    if text in (".", ".."):
        return (f"must not be '{text}'",)
    return ("must not start with '..'",) if text.startswith("..") else ()
