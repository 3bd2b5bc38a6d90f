"""Resource quotas at work: what is used in each namespace, what would be too much, and the status that says so.

`admission` asks a QuotaLedger before an object is written; `QuotaController` keeps the status of quotas right as
objects come and go. A ledger listens to the store and keeps running sums, only for namespaces that have a quota, so
that a pod more costs the same in a namespace of ten pods and of thirty thousand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from kubemini.api import Api, Target
from kubemini.kinds import BUILT_IN, CLAIM, POD, QUOTA, SERVICE, Kind
from kubemini.refusals import Json, forbidden
from kubemini.rules.quantities import text_of
from kubemini.rules.quota_usage import Usage, in_scope, missing, thousandths, usage_of
from kubemini.store import Change, Entry, Key, Store

_COUNTED_ON_UPDATE = frozenset({CLAIM.resource, SERVICE.resource})


@dataclass
class _Counted:
    """One quota, and what is used of it."""

    name: str
    spec: Json
    used: Usage

    def count(self, usage: Usage, sign: int) -> None:
        for name, value in usage.items():
            if name in self.used:
                self.used[name] += sign * value


class QuotaLedger:
    """What is used of each quota."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kinds: dict[str, Kind] = {kind.stored_as: kind for kind in BUILT_IN if kind.namespaced}
        self._quotas: dict[str, dict[str, _Counted]] = {}
        for entry in store.entries(QUOTA):
            self._quota_written(entry)
        store.subscribe(self._changed)

    def used(self, key: Key) -> Usage | None:
        """What is used of a quota; nothing if there is no such quota."""
        counted = self._quotas.get(key[0], {}).get(key[1])
        return dict(counted.used) if counted else None

    def names(self, namespace: str) -> list[str]:
        """The quotas of a namespace."""
        return list(self._quotas.get(namespace, ()))

    def check(self, kind: Kind, body: Json, before: Json | None) -> None:
        """Refuse an object that would use more than is there."""
        quotas = self._quotas.get(body["metadata"].get("namespace", ""))
        if not quotas or (before is not None and kind.resource not in _COUNTED_ON_UPDATE):
            return
        usage = usage_of(kind, body)
        earlier = usage_of(kind, before) if before else {}
        more = {name: value - earlier.get(name, 0) for name, value in usage.items() if value > earlier.get(name, 0)}
        name = body["metadata"].get("name", "")
        for quota in [quotas[each] for each in sorted(quotas)]:
            if not in_scope(kind, body, quota.spec):
                continue
            hard = quota.spec.get("hard", {})
            if kind.resource == POD.resource and (lacking := missing(body, hard)):
                raise forbidden(kind, name, f"failed quota: {quota.name}: must specify {lacking}")
            exceeded = [each for each in sorted(hard) if quota.used[each] + more.get(each, 0) > thousandths(hard[each])]
            if exceeded := [each for each in exceeded if more.get(each)]:
                asked, used = ({each: some[each] for each in exceeded} for some in (more, quota.used))
                limits = {each: thousandths(hard[each]) for each in exceeded}
                parts = (
                    f"{what}: {_shown(some, hard)}"
                    for what, some in (("requested", asked), ("used", used), ("limited", limits))
                )
                raise forbidden(kind, name, f"exceeded quota: {quota.name}, {', '.join(parts)}")

    def _changed(self, change: Change) -> None:
        if change.kind.stored_as == QUOTA.stored_as:
            if change.type == "DELETED":
                self._quotas.get(change.entry.key[0], {}).pop(change.entry.key[1], None)
            elif change.before is None or _spec(change.before) != _spec(change.entry):
                self._quota_written(change.entry)
        self._kinds.setdefault(change.kind.stored_as, change.kind)
        quotas = self._quotas.get(change.entry.key[0])
        if not quotas:
            return
        gone = change.before.object() if change.before else None
        come = change.entry.object() if change.type != "DELETED" else None
        for quota in quotas.values():
            if change.kind.stored_as == QUOTA.stored_as and quota.name == change.entry.key[1] and come is not None:
                continue  # it has just been counted afresh, itself included
            for body, sign in ((gone, -1), (come, 1)):
                if body is not None and in_scope(change.kind, body, quota.spec):
                    quota.count(usage_of(change.kind, body), sign)

    def _quota_written(self, entry: Entry) -> None:
        """Count a quota's namespace from the beginning."""
        spec = _spec(entry)
        counted = _Counted(entry.key[1], spec, dict.fromkeys(spec.get("hard", ()), 0))
        self._quotas.setdefault(entry.key[0], {})[entry.key[1]] = counted
        for kind in self._kinds.values():
            if not _concerns(kind, counted.used):
                continue
            for each in self._store.entries(kind, entry.key[0]):
                body = each.object()
                if in_scope(kind, body, spec):
                    counted.count(usage_of(kind, body), 1)


class QuotaController:
    """Keeps the status of quotas right."""

    name = "quota"

    def __init__(self, api: Api) -> None:
        self._api = api
        self._ledger = QuotaLedger(api.store)
        self.kinds: tuple[Kind, ...] = tuple(kind for kind in BUILT_IN if kind.namespaced)

    def concerned(self, change: Change) -> Iterable[Key]:
        """Any object may count for every quota of its namespace."""
        namespace = change.entry.key[0]
        return [(namespace, name) for name in self._ledger.names(namespace)]

    async def reconcile(self, key: Key) -> float | None:
        """Write down what is used."""
        used = self._ledger.used(key)
        if used is None or self._api.find(QUOTA, key) is None:
            return None

        def counted(body: Json) -> Json:
            hard = body["spec"].get("hard", {})
            body["status"] = {"hard": hard, "used": {name: _text(used.get(name, 0), hard[name]) for name in hard}}
            return body

        await self._api.edit(Target(QUOTA, key[0], key[1], "status"), counted)
        return None


def _spec(entry: Entry) -> Json:
    spec: Json = entry.object()["spec"]
    return spec


def _concerns(kind: Kind, names: Iterable[str]) -> bool:
    """Whether objects of a kind can count for any of these."""
    return any(
        name == f"count/{kind.resource}" or (not name.startswith("count/") and kind.resource in _SUMMED)
        for name in names
    )


_SUMMED = frozenset({POD.resource, CLAIM.resource, SERVICE.resource, QUOTA.resource, "secrets", "configmaps"})


def _shown(usage: Usage, hard: Json) -> str:
    return ",".join(f"{name}={_text(value, hard[name])}" for name, value in sorted(usage.items()))


def _text(value: int, like: str) -> str:
    return text_of(Fraction(value, 1000), like)
