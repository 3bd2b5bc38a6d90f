"""Thresholds of nodes: from one mapping by resource, as the others have it, to the fields that they are here.

descheduler's LowNodeUtilization and HighNodeUtilization use it, and koordinator's LowNodeLoad with its node pools. A
resource that is not named counts for nothing there, which is 100 per cent here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rescheduler.config.conversion.draft import Draft, Path
from rescheduler.config.conversion.options import Given
from rescheduler.config.errors import kind_of

OPTIMIZATION: Path = ("strategies", "ResourceOptimization")
PACKING: Path = ("strategies", "Consolidation")
_OWN = {"cpu": "cpuThreshold", "memory": "memoryThreshold"}
_INDEX = "MetricResource"
_ALL = 100
_LEAST = 1
_LEFT_OUT = "a low threshold of 0 points, or none, leaves the resource out there, and so it is here"


def levels(draft: Draft, given: Given) -> dict[str, float]:
    """Per cent by resource, as far as they make sense."""
    if given.value is None:
        return {}
    if not isinstance(given.value, dict):
        draft.wrong(given.loc, f"is {kind_of(given.value)}, expected per cent by resource")
        return {}
    found: dict[str, float] = {}
    for name, value in given.value.items():
        loc = (*given.loc, name)
        number = _percent(value)
        if name == _INDEX:
            why = "what a query of one's own gives is no use of a resource"
            draft.miss(loc, why, "usage.prometheus.queries, in cores and bytes, with cpuThreshold and memoryThreshold")
        elif number is None or number < 0:
            draft.wrong(loc, "is not a percentage")
        else:
            found[name] = number
    return found


def _percent(value: object) -> float | None:
    if isinstance(value, str):
        text = value.strip().removesuffix("%")
        try:
            return float(text)
        except ValueError:
            return None
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else value


def put_upper(draft: Draft, base: Path, given: Given, left_out: Collection[str] = ()) -> dict[str, float]:
    """The thresholds above which a node is hot; gives those that are in force."""
    wanted = levels(draft, given)
    for name in sorted(wanted.keys() & {*left_out}):
        draft.settled((*given.loc, name), _LEFT_OUT)
        del wanted[name]
    put: dict[str, float] = {}
    for name in dict.fromkeys((*_OWN, *wanted)):
        number, comment = wanted.get(name), ""
        if number is None:
            number, comment = _ALL, "not given there, so it makes no node hot"
        elif number > _ALL:
            number, comment = _ALL, f"there {number:g}; more than 100 is not possible here"
        elif number == 0:
            number, comment = _LEAST, "there 0; it must be above 0 here"
        path = (*base, _OWN[name]) if name in _OWN else (*base, "thresholds", name)
        draft.put(path, _plain(number), (*given.loc, name) if name in wanted else given.loc, comment)
        put[name] = number
    return put


def put_lower(
    draft: Draft, base: Path, given: Given, upper: Mapping[str, float], left_out: Collection[str] = ()
) -> None:
    """The thresholds under which a node is underused, so that it takes pods; none is above its `upper` one."""
    path = (*base, *OPTIMIZATION, "lowThresholds")
    for name, number in levels(draft, given).items():
        loc, comment = (*given.loc, name), ""
        if name in left_out:
            draft.settled(loc, _LEFT_OUT)
            continue
        most = upper.get(name, _ALL)
        if number > most:
            number, comment = most, f"there {number:g}, which is above the upper threshold"
        draft.put((*path, name), _plain(number), loc, comment)
        count(draft, base, name, loc)


def put_packing(draft: Draft, given: Given) -> None:
    """The thresholds under which a node is worth emptying."""
    draft.put((*PACKING, "maxUtilization"), _ALL, given.loc, "resources that are not named below count for nothing")
    for name, number in levels(draft, given).items():
        comment = f"there {number:g}" if number > _ALL else ""
        draft.put((*PACKING, "maxUtilizationOf", name), _plain(min(number, _ALL)), (*given.loc, name), comment)
        count(draft, (), name, (*given.loc, name))


def count(draft: Draft, base: Path, name: str, loc: Path) -> None:
    """Have a resource count, for only those do that have a threshold."""
    if name in _OWN or draft.get((*base, "thresholds", name)) is not None:
        return
    draft.put((*base, "thresholds", name), _ALL, loc, "so that it counts; it makes no node hot")


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number
