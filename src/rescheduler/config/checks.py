"""All checks of a configuration's content, whichever form it came in: the fields, and every strategy's settings.

`loader` gives it the native form's data, from a file or with flags laid over it, and gets typed values or every
Finding at once. What strategies exist is told from outside, because `config` knows none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rescheduler.config.errors import Finding, Loc, hint, path_of, shown, wrong_type
from rescheduler.config.schema import INHERITED, Fields
from rescheduler.config.translation import fields_by_name, known_part, parse
from rescheduler.planning.settings import Settings

Known = Mapping[str, type[Settings]]


class InvalidError(Exception):
    """The data was refused; carries every reason."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(f"{len(self.findings)} findings")


@dataclass(frozen=True, slots=True)
class Checked:
    """Sound content: the fields, and the effective settings of each strategy."""

    fields: Fields
    settings: Mapping[str, Settings]


def check(data: Mapping[str, object], known: Known) -> Checked:
    """Check the native form's data (without apiVersion and kind)."""
    checking = _Checking(known)
    given = known_part(data, Fields, checking.findings, ())
    own = checking.own_settings(given.pop("strategies", {}))
    fields = checking.sound_fields(given)
    enabled = given.get("enabledStrategies", list(fields.enabled_strategies))
    names = enabled if isinstance(enabled, list) else []
    checking.check_names(names)
    settings = checking.effective_settings(own, _inherited(fields), [*own, *names])
    if checking.findings:
        raise InvalidError(checking.findings)
    return Checked(fields.model_copy(update={"strategies": _written_out(settings, own)}), settings)


def _inherited(fields: Fields) -> dict[str, object]:
    dumped = fields.model_dump(mode="json", by_alias=True)
    return {name: dumped[name] for name in INHERITED}


def _written_out(settings: Mapping[str, Settings], own: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Every setting as files give it, but those inherited: written out, they would no longer follow their source."""
    written: dict[str, object] = {}
    for name, values in settings.items():
        dumped = values.model_dump(mode="json", by_alias=True)
        given = own.get(name, {})
        written[name] = {key: value for key, value in dumped.items() if key not in INHERITED or key in given}
    return written


@dataclass(slots=True)
class _Checking:
    """What is found while one configuration is checked."""

    known: Known
    findings: list[Finding] = field(default_factory=list)

    def sound_fields(self, given: Mapping[str, object]) -> Fields:
        """The fields; where some are wrong, the others, so that what depends on those is checked all the same."""
        parsed = parse(given, Fields, ())
        if isinstance(parsed, Fields):
            return parsed
        self.findings += parsed
        wrong = {finding.loc[0] for finding in parsed if finding.loc}
        sound = parse({name: value for name, value in given.items() if name not in wrong}, Fields, ())
        return sound if isinstance(sound, Fields) else Fields()

    def check_names(self, names: Sequence[object]) -> None:
        """Strategies must exist and be named once; that they are text, the model checks."""
        seen: dict[str, int] = {}
        for index, name in enumerate(names):
            if not isinstance(name, str):
                continue
            loc: Loc = ("enabledStrategies", index)
            if name not in self.known:
                self.findings.append(Finding(loc, self._unknown(name)))
            elif name in seen:
                first = path_of(("enabledStrategies", seen[name]))
                self.findings.append(Finding(loc, f"{shown(name)} is listed already, at {first}"))
            seen.setdefault(name, index)

    def own_settings(self, given: object) -> dict[str, dict[str, object]]:
        """What the file says under `strategies`, as far as it can be checked further."""
        if not isinstance(given, dict):
            self.findings.append(Finding(("strategies",), wrong_type(given, "a mapping of strategies to settings")))
            return {}
        own: dict[str, dict[str, object]] = {}
        for name, values in given.items():
            loc = ("strategies", name)
            if name not in self.known:
                self.findings.append(Finding(loc, self._unknown(name)))
            elif isinstance(values, dict):
                own[name] = known_part(values, self.known[name], self.findings, loc)
            elif values is not None:
                self.findings.append(Finding(loc, wrong_type(values, "a mapping")))
        return own

    def effective_settings(
        self, own: Mapping[str, Mapping[str, object]], inherited: Mapping[str, object], needed: Sequence[object]
    ) -> dict[str, Settings]:
        """Each strategy's settings: its own, else inherited, else its defaults.

        A strategy that is neither enabled nor configured and cannot do with that (it has a setting without a default)
        is left out, so that an unused strategy never stands in the way.
        """
        effective: dict[str, Settings] = {}
        for name, model in sorted(self.known.items()):
            names = fields_by_name(model)
            data = {key: value for key, value in inherited.items() if key in names} | dict(own.get(name, {}))
            parsed = parse(data, model, ("strategies", name))
            if not isinstance(parsed, list):
                effective[name] = parsed
            elif name in needed:
                self.findings += [self._blamed(finding, own.get(name, {})) for finding in parsed]
        return effective

    def _blamed(self, finding: Finding, own: Mapping[str, object]) -> Finding:
        """Put the blame for an inherited value on the field that it comes from."""
        source = finding.loc[2:]
        if len(source) != 1 or source[0] not in INHERITED or source[0] in own:
            return finding
        return Finding(source, f"{finding.message} (it is also the default of {path_of(finding.loc)})")

    def _unknown(self, name: str) -> str:
        listed = f"known: {', '.join(sorted(self.known))}" if self.known else "none are known"
        return f"{shown(name)} is not a known strategy{hint(name, self.known) or ';'} {listed}"
