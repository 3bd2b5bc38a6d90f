"""Reads configuration files of both forms, and puts flags over them.

The native form is strict. The scheduler form is a KubeSchedulerConfiguration, of which only the Rescheduler plugin's
args, leaderElection and clientConnection.kubeconfig are read; everything else belongs to kube-scheduler and is ignored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from stat import S_ISREG
from typing import Any

from rescheduler.config.errors import ConfigError, ConfigErrors, Finding, InvalidError, Loc, format_path, hint, nearest
from rescheduler.config.schema import (
    NATIVE_KIND,
    NATIVE_VERSION,
    OUTSIDE_ARGS,
    Configuration,
    LeaderElectionFields,
    PluginArgs,
)
from rescheduler.config.validate import Known, check, dump, fields_by_name, keep_known_fields
from rescheduler.model.fields import flag_name, quote, to_camel, wrong_type
from rescheduler.model.policy import Policy

SCHEDULER_KIND = "KubeSchedulerConfiguration"
SCHEDULER_VERSIONS = tuple(f"kubescheduler.config.k8s.io/{version}" for version in ("v1", "v1beta3", "v1beta2"))
PLUGIN = "Rescheduler"
_VERSIONS = {NATIVE_KIND: (NATIVE_VERSION,), SCHEDULER_KIND: SCHEDULER_VERSIONS}
_HEADER = ("apiVersion", "kind")
# The scheduler's own Lease: two holders would stop each other.
_SCHEDULERS_LEASE = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class Form:
    """The content of a document as native fields, and their place in the file."""

    kind: str
    data: dict[str, object]
    findings: tuple[Finding, ...]
    args_at: Loc = ()

    def locate(self, loc: Loc) -> Loc:
        """The place in the file of a native field."""
        return loc if not loc or loc[0] in OUTSIDE_ARGS else (*self.args_at, *loc)


def recognise(document: Mapping[str, object]) -> Form:
    """Recognise the form by its kind, or by apiVersion if the kind is wrong, so that the rest is checked too."""
    findings = [*_check_header(document)]
    kind, version = document.get("kind"), document.get("apiVersion")
    group = version.partition("/")[0] if isinstance(version, str) else ""
    by_group = {versions[0].partition("/")[0]: name for name, versions in _VERSIONS.items()}
    chosen = kind if isinstance(kind, str) and kind in _VERSIONS else by_group.get(group)
    if chosen == NATIVE_KIND:
        return Form(NATIVE_KIND, {k: v for k, v in document.items() if k not in _HEADER}, tuple(findings))
    if chosen == SCHEDULER_KIND:
        return _from_scheduler_form(document, findings)
    return Form("", {}, tuple(findings))


def _check_header(document: Mapping[str, object]) -> Iterator[Finding]:
    kind, version = document.get("kind"), document.get("apiVersion")
    kind_known = isinstance(kind, str) and kind in _VERSIONS
    versions = _VERSIONS[str(kind)] if kind_known else (NATIVE_VERSION, *SCHEDULER_VERSIONS)
    fitting = [name for name, accepted in _VERSIONS.items() if version in accepted]
    kinds = fitting if fitting and not kind_known else list(_VERSIONS)
    for name, value, accepted in (("apiVersion", version, versions), ("kind", kind, kinds)):
        if value is None:
            near = nearest(name, (key for key in document if key not in _HEADER))
            instead = f" ({near} is not it)" if near else ""
            yield Finding((name,), f"is missing{instead}; accepted: {', '.join(accepted)}")
        elif not isinstance(value, str):
            yield Finding((name,), wrong_type(value, "a string"))
        elif value not in accepted:
            of = f" of {kind}" if name == "apiVersion" and kind_known else ""
            message = f"{quote(value)} is not a known {name}{of}{hint(value, accepted) or ';'}"
            yield Finding((name,), f"{message} accepted: {', '.join(accepted)}")


def _from_scheduler_form(document: Mapping[str, object], findings: list[Finding]) -> Form:
    data = _top_level(document, findings)
    places = [*_plugin_configs(document, findings)]
    named = [(loc, config) for loc, config in places if config.get("name") == PLUGIN]
    if not named:
        if not any(finding.loc[:1] == ("profiles",) for finding in findings):
            findings.append(Finding(("profiles",), _no_plugin_config(places)))
        return Form(SCHEDULER_KIND, data, tuple(findings))
    if len(named) > 1:
        paths = " and ".join(format_path(loc) for loc, _ in named)
        findings.append(Finding(named[1][0], f"only one pluginConfig may be named {PLUGIN}, found {paths}"))
    loc, config = named[0]
    args_at = (*loc, "args")
    args = config.get("args")
    if isinstance(args, dict):
        misplaced = [name for name in OUTSIDE_ARGS if name in args]
        findings += [Finding((*args_at, name), "belongs at the top of the file, not in args") for name in misplaced]
        ours = {name: value for name, value in args.items() if name not in (*_HEADER, *OUTSIDE_ARGS)}
        data |= keep_known_fields(ours, PluginArgs, findings, args_at)
    elif args is not None:
        findings.append(Finding(args_at, wrong_type(args, "a mapping")))
    return Form(SCHEDULER_KIND, data, tuple(findings), args_at)


def _top_level(document: Mapping[str, object], findings: list[Finding]) -> dict[str, object]:
    """The fields of kube-scheduler's own sections that are read here; the others belong to kube-scheduler."""
    picked: dict[str, object] = {}
    for name, ours in (
        ("leaderElection", fields_by_name(LeaderElectionFields)),
        ("clientConnection", {"kubeconfig": None}),
    ):
        section = document.get(name)
        if isinstance(section, dict):
            picked[name] = {key: value for key, value in section.items() if key in ours}
        elif section is not None:
            findings.append(Finding((name,), wrong_type(section, "a mapping")))
    election = picked.get("leaderElection")
    if isinstance(election, dict) and election.get("resourceName") == _SCHEDULERS_LEASE:
        del election["resourceName"]
    return picked


def _plugin_configs(
    document: Mapping[str, object], findings: list[Finding]
) -> Iterator[tuple[Loc, Mapping[str, object]]]:
    profiles = document.get("profiles")
    if profiles is not None and not isinstance(profiles, list):
        findings.append(Finding(("profiles",), wrong_type(profiles, "a list")))
    for index, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        configs = profile.get("pluginConfig") if isinstance(profile, dict) else None
        at: Loc = ("profiles", index, "pluginConfig")
        if configs is not None and not isinstance(configs, list):
            findings.append(Finding(at, wrong_type(configs, "a list")))
        for place, config in enumerate(configs if isinstance(configs, list) else ()):
            if isinstance(config, dict):
                yield (*at, place), config


def _no_plugin_config(places: list[tuple[Loc, Mapping[str, object]]]) -> str:
    for loc, config in places:
        name = config.get("name")
        if isinstance(name, str) and nearest(name, [PLUGIN]):
            return (
                f"no pluginConfig is named {PLUGIN}; did you mean it by {quote(name)} at {format_path((*loc, 'name'))}?"
            )
    return f"no pluginConfig is named {PLUGIN}: add one, with its args, to profiles[0].pluginConfig"


def load(text: str, source: str, known: Known) -> Configuration:
    """Read a file's text; `source` names it in errors."""
    from rescheduler.config.document import read_document  # noqa: PLC0415 - only files need YAML

    try:
        document = read_document(text)
    except InvalidError as error:
        raise ConfigErrors.in_source(source, error.findings) from error
    form = recognise(document.data)
    findings = [*document.findings, *form.findings]
    if form.kind:
        try:
            config = check(form.data, known, form.kind)
        except InvalidError as error:
            findings += [Finding(form.locate(finding.loc), finding.message) for finding in error.findings]
        else:
            if not findings:
                return config
    raise ConfigErrors.in_source(source, _in_order(document.data, findings))


def load_file(path: str, known: Known) -> Configuration:
    """Read a file, or standard input where the path is `-`."""
    return load(read_text(path), source_name(path), known)


def read_text(path: str) -> str:
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
    """The name of a file in errors."""
    return "<stdin>" if path == "-" else path


def _standard_input() -> bytes:
    if sys.stdin is None:  # closed by the shell: `<&-`
        raise OSError("standard input is closed")
    return sys.stdin.buffer.read()


def load_defaults(known: Known) -> Configuration:
    """The configuration without a file."""
    try:
        return check({}, known)
    except InvalidError as error:  # a strategy that is enabled by default is not among the known ones
        raise ConfigErrors.in_source("default configuration", error.findings) from error


def override(config: Configuration, overrides: Mapping[str, object]) -> Configuration:
    """The configuration with flags over it, checked as a file is; errors name the flag.

    Keys are fields as in the native form, sections with dots (`cpuThreshold`, `limits.perNodeIn`); None is a flag not
    given. A strategy's
    own setting in the file stays, as it does when the field is changed in the file, and so do thresholds of a pool; but
    strategies that a flag names run instead of all that the file names, in pools, too. A pool in which none run (`[]`)
    is to be left alone, and is.
    """
    given = {name: _plain(value) for name, value in overrides.items() if value is not None}
    if not given:
        return config
    data: dict[str, Any] = dump(config.fields)
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
        return check(data, config.known, config.kind)
    except InvalidError as error:
        named = {name: _flag(name) for name in given}
        raise ConfigErrors([_flag_error(finding, named) for finding in error.findings]) from error


def _plain(value: object) -> object:
    """A value as a file would give it; click's repeatable options are tuples."""
    return list(value) if isinstance(value, (tuple, set, frozenset)) else value


def _flag(key: str) -> str:
    """The flag that sets a field."""
    named = {to_camel(each.name): each.metadata["flag"].name for each in fields(Policy) if each.metadata.get("flag")}
    return named.get(key) or flag_name(key)


def _flag_error(finding: Finding, flags: Mapping[str, str]) -> ConfigError:
    """Name the flag that set the field; where several fields clash, all flags, and the field."""
    for name, flag in flags.items():
        loc = tuple(name.split("."))
        if finding.loc[: len(loc)] == loc:
            return ConfigError(flag, "", finding.message)
    return ConfigError(", ".join(flags.values()), format_path(finding.loc), finding.message)


def _in_order(data: object, findings: Iterable[Finding]) -> list[Finding]:
    """Findings in the order of the file; a finding about an absent field comes at its parent."""
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


_LARGEST = 2**22  # bytes; a ConfigMap holds at most a quarter of that


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Where a configuration comes from."""

    path: str
    overrides: Mapping[str, object]
    """Flags, as `override` takes them."""
    known: Known
    """The known strategies."""

    @property
    def can_change(self) -> bool:
        """Whether it can be read again; a pipe or standard input cannot."""
        return self.path != "-" and Path(self.path).is_file()

    def text(self) -> str:
        """Its content now; ConfigErrors if it cannot be read."""
        return read_text(self.path)

    def reread_text(self) -> str:
        """The same at a later time, when it may have become a directory or a pipe, which is not read."""
        try:
            found = Path(self.path).stat()
        except OSError:
            return self.text()  # which says why it cannot be read
        if not S_ISREG(found.st_mode):
            raise ConfigErrors([ConfigError(self.path, "", "cannot be read: it is no file any more")])
        if found.st_size > _LARGEST:
            raise ConfigErrors([ConfigError(self.path, "", f"is larger than {_LARGEST >> 20} MiB")])
        return self.text()

    def read(self, text: str) -> Configuration:
        """Parse its text, with the flags over it; ConfigErrors has all errors."""
        return override(load(text, source_name(self.path), self.known), self.overrides)


@dataclass(frozen=True, slots=True)
class Origin:
    """The file of a configuration, and its content at that time."""

    file: ConfigFile
    text: str
