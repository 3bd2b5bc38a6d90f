"""All checks of a configuration's content, whichever form it came in: the fields, and every strategy's settings.

`loader` gives it the native form's data, from a file or with flags laid over it, and gets typed values or every
Finding at once. What strategies exist is told from outside, because `config` knows none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rescheduler.config.errors import Finding, Loc, hint, path_of, shown, wrong_type
from rescheduler.config.fitting import DECIDING, unfit
from rescheduler.config.foreign import translated
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
    pools: tuple[Mapping[str, Settings], ...] = ()
    """The same of each node pool."""


def check(data: Mapping[str, object], known: Known) -> Checked:
    """Check the native form's data (without apiVersion and kind)."""
    checking = _Checking(known)
    given = known_part(data, Fields, checking.findings, ())
    own = checking.own_settings(given.pop("strategies", {}))
    fields = checking.sound_fields(given)
    enabled = given.get("enabledStrategies", list(fields.enabled_strategies))
    names = enabled if isinstance(enabled, list) else []
    checking.check_names(names, ("enabledStrategies",))
    settings = checking.effective_settings(own, _inherited(fields), [*own, *names])
    checking.check_pools(fields)
    pools = tuple(checking.of_pool(index, fields, own) for index in range(len(fields.pools)))
    if not DECIDING & {finding.loc[0] for finding in checking.findings if finding.loc}:
        checking.findings += unfit(fields, settings, pools, own)
    if checking.findings:
        raise InvalidError(checking.findings)
    return Checked(fields.model_copy(update={"strategies": _written_out(settings, own)}), settings, pools)


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

    def check_names(self, names: Sequence[object], at: Loc) -> None:
        """Strategies must exist, be named once and not undo each other; that they are text, the model checks."""
        seen: dict[str, int] = {}
        for index, name in enumerate(names):
            if not isinstance(name, str):
                continue
            loc: Loc = (*at, index)
            if name not in self.known:
                self.findings.append(Finding(loc, self._unknown(name)))
            elif name in seen:
                first = path_of((*at, seen[name]))
                self.findings.append(Finding(loc, f"{shown(name)} is listed already, at {first}"))
            elif undone := sorted(self._undone_by(name) & seen.keys()):
                cure = "leave one of them out, or give them node pools of their own (pools)"
                self.findings.append(Finding(loc, f"{name} and {undone[0]} undo each other's moves: {cure}"))
            seen.setdefault(name, index)

    def _undone_by(self, name: str) -> set[str]:
        """The strategies that this one cannot run beside, whichever of the two says so."""
        return {other for other in self.known if other in self.known[name].undoes or name in self.known[other].undoes}

    def check_pools(self, fields: Fields) -> None:
        """Each must have a name of its own."""
        names = [pool.name for pool in fields.pools]
        for index, name in enumerate(names):
            if (first := names.index(name)) < index:
                other = path_of(("pools", first))
                taken = f"two pools are called {name}, this one and {other}: give each a name of its own"
                self.findings.append(Finding(("pools", index, "name"), taken))

    def of_pool(self, index: int, fields: Fields, top: Mapping[str, Mapping[str, object]]) -> dict[str, Settings]:
        """The effective settings of one pool's strategies: its own over those at the top."""
        pool, at = fields.pools[index], ("pools", index)
        names = fields.enabled_strategies if pool.enabled_strategies is None else pool.enabled_strategies
        if pool.enabled_strategies is not None:
            self.check_names(names, (*at, "enabledStrategies"))
        mine = self.own_settings(pool.strategies or {}, (*at, "strategies"))
        said = pool.said(INHERITED)  # a field of the pool is nearer than what a strategy is told at the top
        above = {name: {key: value for key, value in values.items() if key not in said} for name, values in top.items()}
        own = {name: {**above.get(name, {}), **mine.get(name, {})} for name in {*above, *mine}}
        told = len(self.findings)
        effective = self.effective_settings(own, {**_inherited(fields), **said}, [*mine, *names], at)
        fresh = [finding for finding in self.findings[told:] if not self._is_told(finding, mine, at)]
        self.findings[told:] = fresh
        return effective

    def _is_told(self, finding: Finding, mine: Mapping[str, Mapping[str, object]], at: Loc) -> bool:
        """Whether it is the top's mistake, which has been told there, and the pool itself says nothing of it."""
        _, name, *field = above = finding.loc[len(at) :]
        said = mine.get(str(name))
        if said is not None and (not field or field[0] in said):
            return False
        return any(each.loc == above and each.message == finding.message for each in self.findings)

    def own_settings(self, given: object, at: Loc = ("strategies",)) -> dict[str, dict[str, object]]:
        """What the file says under `strategies`, as far as it can be checked further."""
        if not isinstance(given, dict):
            self.findings.append(Finding(at, wrong_type(given, "a mapping of strategies to settings")))
            return {}
        own: dict[str, dict[str, object]] = {}
        for name, values in given.items():
            loc = (*at, name)
            if name not in self.known:
                self.findings.append(Finding(loc, self._unknown(name)))
            elif isinstance(values, dict):
                own[name] = known_part(values, self.known[name], self.findings, loc)
            elif values is not None:
                self.findings.append(Finding(loc, wrong_type(values, "a mapping")))
        return own

    def effective_settings(
        self,
        own: Mapping[str, Mapping[str, object]],
        inherited: Mapping[str, object],
        needed: Sequence[object],
        at: Loc = (),
    ) -> dict[str, Settings]:
        """Each strategy's settings: its own, else inherited, else its defaults.

        A strategy that is neither enabled nor configured and cannot do with that (it has a setting without a default)
        is left out, so that an unused strategy never stands in the way.
        """
        effective: dict[str, Settings] = {}
        for name, model in sorted(self.known.items()):
            names = fields_by_name(model)
            data = {key: value for key, value in inherited.items() if key in names} | dict(own.get(name, {}))
            parsed = parse(data, model, (*at, "strategies", name))
            if not isinstance(parsed, list):
                effective[name] = parsed
            elif name in needed:
                self.findings += parsed if at else [self._blamed(finding, own.get(name, {})) for finding in parsed]
        return effective

    def _blamed(self, finding: Finding, own: Mapping[str, object]) -> Finding:
        """Put the blame for an inherited value on the field that it comes from."""
        source = finding.loc[2:]
        if len(source) != 1 or source[0] not in INHERITED or source[0] in own:
            return finding
        return Finding(source, f"{finding.message} (it is also the default of {path_of(finding.loc)})")

    def _unknown(self, name: str) -> str:
        listed = f"known: {', '.join(sorted(self.known))}" if self.known else "none are known"
        meant = translated(name, self.known) or hint(name, self.known) or ";"
        return f"{shown(name)} is not a known strategy{meant} {listed}"
