"""Configuration files and flags to a Configuration, or every error in them at once.

The commands call `load_file` (or `defaults` where there is no file), then `with_overrides` for the flags. The known
strategies come from the caller. Reading a local file is all the I/O that this package does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rescheduler.config.checks import InvalidError, Known, check
from rescheduler.config.configuration import Configuration
from rescheduler.config.document import DocumentError, read_document
from rescheduler.config.errors import ConfigError, ConfigErrors, Finding, Loc, path_of
from rescheduler.config.forms import NATIVE_KIND, recognise

# Flags that are not named after the field alone.
_FLAGS = {
    "enabledStrategies": "--strategy",
    "excludedNamespaces": "--excluded-namespace",
    "allow.jobs": "--allow-jobs",
    "allow.localStorage": "--allow-local-storage",
    "allow.singleReplica": "--allow-single-replica",
}


def load(text: str, source: str, known: Known) -> Configuration:
    """Read a file's text; `source` names it in errors."""
    try:
        document = read_document(text)
    except DocumentError as error:
        raise ConfigErrors(_errors(source, [error.finding])) from error
    form = recognise(document.data)
    findings = [*document.findings, *form.findings]
    if form.kind:
        try:
            checked = check(form.data, known)
        except InvalidError as error:
            findings += [Finding(form.locate(finding.loc), finding.message) for finding in error.findings]
        else:
            if not findings:
                return Configuration(checked.fields, checked.settings, checked.pools, form.kind, known)
    raise ConfigErrors(_errors(source, _in_order(document.data, findings)))


def load_file(path: str, known: Known) -> Configuration:
    """Read a file, or standard input where the path is `-`."""
    return load(text_of(path), source_name(path), known)


def text_of(path: str) -> str:
    """The text of a file, or of standard input; ConfigErrors if it cannot be read."""
    source = source_name(path)
    try:
        raw = _standard_input() if path == "-" else Path(path).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise ConfigErrors([ConfigError(source, "", f"cannot be read: {error.strerror or error}")]) from error
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 text: byte {error.start} is {raw[error.start]:#04x}"
        raise ConfigErrors([ConfigError(source, "", message)]) from error


def source_name(path: str) -> str:
    """What errors call a file."""
    return "<stdin>" if path == "-" else path


def _standard_input() -> bytes:
    if sys.stdin is None:  # closed by the shell: `<&-`
        raise OSError("standard input is closed")
    return sys.stdin.buffer.read()


def defaults(known: Known) -> Configuration:
    """The configuration of those who give none."""
    try:
        checked = check({}, known)
    except InvalidError as error:  # a strategy that is enabled by default is not among the known ones
        raise ConfigErrors(_errors("default configuration", error.findings)) from error
    return Configuration(checked.fields, checked.settings, checked.pools, NATIVE_KIND, known)


def with_overrides(config: Configuration, overrides: Mapping[str, object]) -> Configuration:
    """The configuration with flags over it, checked as a file is; errors name the flag.

    Keys are fields as in the native form, sections with dots (`cpuThreshold`, `limits.perNodeIn`); None is a flag not
    given. A flag is named after the last part of its field (`--per-node-in`), a few otherwise (_FLAGS). A strategy's
    own setting in the file stays, as it does when the field is changed in the file, and so do thresholds of a pool; but
    strategies that a flag names run instead of all that the file names, in pools, too. A pool in which none run (`[]`)
    is to be left alone, and is.
    """
    given = {name: _plain(value) for name, value in overrides.items() if value is not None}
    data = config.fields.model_dump(mode="json", by_alias=True)
    for name, value in given.items():
        *sections, last = name.split(".")
        at = data
        for section in sections:
            at = at.setdefault(section, {})
        at[last] = value
    if "enabledStrategies" in given:
        for pool in data["pools"]:
            if pool["enabledStrategies"]:
                pool["enabledStrategies"] = None
    try:
        checked = check(data, config.known)
    except InvalidError as error:
        named = {name: _FLAGS.get(name) or _flag(name) for name in given}
        raise ConfigErrors([_flag_error(finding, named) for finding in error.findings]) from error
    return Configuration(checked.fields, checked.settings, checked.pools, config.kind, config.known)


def _plain(value: object) -> object:
    """A value as a file would give it; click's repeatable options are tuples."""
    return list(value) if isinstance(value, (tuple, set, frozenset)) else value


def _flag(name: str) -> str:
    return "--" + re.sub(r"([A-Z])", r"-\1", name.rpartition(".")[2]).lower()


def _flag_error(finding: Finding, flags: Mapping[str, str]) -> ConfigError:
    """Name the flag that set the field; where several fields clash, all flags, and the field."""
    for name, flag in flags.items():
        loc = tuple(name.split("."))
        if finding.loc[: len(loc)] == loc:
            return ConfigError(flag, "", finding.message)
    return ConfigError(", ".join(flags.values()), path_of(finding.loc), finding.message)


def _errors(source: str, findings: Iterable[Finding]) -> list[ConfigError]:
    return [ConfigError(source, path_of(finding.loc), finding.message) for finding in findings]


def _in_order(data: object, findings: Iterable[Finding]) -> list[Finding]:
    """Findings in the order in which one meets them in the file; what is absent comes where it would be looked for."""
    order = {loc: index for index, loc in enumerate(_places(data, ()))}

    def position(finding: Finding) -> int:
        loc = finding.loc
        while loc not in order:
            loc = loc[:-1]
        return order[loc]

    return sorted(findings, key=position)


def _places(data: object, loc: Loc) -> Iterator[Loc]:
    yield loc
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _places(value, (*loc, name))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _places(value, (*loc, index))
