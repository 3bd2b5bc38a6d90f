"""Rolled storage: the claims that pods use, by what kind of claim it is, and what is behind them.

A claim's name begins with its kind. All volumes that claims are bound to exist beforehand and name their claim, so
that the volume controller binds them without a provisioner.

Left out: volumes that are free for a claim that waits (class without a provisioner). The scheduler looks for one that
fits; we say that such a claim is not bound, because a pod that runs has its claims bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescheduler.model.json import Json
from tests.contract.agreement.nodes import DRIVERS, ZONES
from tests.contract.agreement.world import OLD_REGION, OLD_ZONE, REGION, ZONE, Dice

SELECTED_NODE = "volume.kubernetes.io/selected-node"  # where the scheduler wants it made
WAITING = ("later", "topo", "static", "chosen")
STUCK = ("stuck", "classless", "unclassed", "taken", "lost", "missing", "leaving")
"""Never usable: not provisioned; no class, or one that isn't there; another's volume; no volume; no claim; deleted."""

STAYS = "agreement.test/stays"  # the finalizer of claims that are being deleted


class Shelf:
    """The claims that pods of one world use so far."""

    def __init__(self, dice: Dice, world: str, nodes: Sequence[str]) -> None:
        self._dice = dice
        self._world = world
        self._nodes = nodes
        self._used: dict[tuple[str, str], None] = {}

    def claim(self, namespace: str, kind: str, variants: int = 3) -> str:
        """The name of a claim of this kind, one of a few."""
        name = f"{kind}-{self._dice.number(1, variants)}"
        self._used[(namespace, name)] = None
        return name

    def objects(self) -> list[Json]:
        """Classes, volumes and claims."""
        found = self._classes()
        for namespace, name in self._used:
            found += self._claim(namespace, name)
        return found

    def _classes(self) -> list[Json]:
        dice = self._dice
        topology = [{"matchLabelExpressions": [{"key": ZONE, "values": dice.some(ZONES, 1, 2)}]}]
        if dice.chance(40):
            topology.append({"matchLabelExpressions": [{"key": "disk", "values": ["ssd"]}]})
        return [
            self._class("once", DRIVERS[0], "Immediate"),
            self._class("later", DRIVERS[0], "WaitForFirstConsumer"),
            self._class("topo", DRIVERS[1], "WaitForFirstConsumer", allowedTopologies=topology),
            self._class("static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        ]

    def _class(self, name: str, provisioner: str, mode: str, **more: object) -> Json:
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": f"{self._world}-{name}"},
            "provisioner": provisioner,
            "volumeBindingMode": mode,
            **more,
        }

    def _claim(self, namespace: str, name: str) -> list[Json]:
        kind = name.partition("-")[0]
        volume = f"pv-{namespace}-{name}"
        match kind:
            case "missing":
                return []
            case "later" | "topo":
                return [_claim(namespace, name, storage_class=f"{self._world}-{kind}")]
            case "chosen":
                made = _claim(namespace, name, storage_class=f"{self._world}-later")
                made["metadata"]["annotations"] = {SELECTED_NODE: self._dice.pick(self._nodes)}
                return [made]
            case "static":
                # Such claims wait for a volume that is created by hand, which does not happen here. We don't look for
                # one (see the module); the scheduler would.
                return [_claim(namespace, name, storage_class=f"{self._world}-static")]
            case "stuck":
                return [_claim(namespace, name, storage_class=f"{self._world}-once")]
            case "classless":
                return [_claim(namespace, name, storage_class="")]
            case "unclassed":
                return [_claim(namespace, name, storage_class="no-such-class")]
            case "lost":
                return [_claim(namespace, name, volume=f"{volume}-that-is-not-there")]
            case "taken":
                owner = {"namespace": namespace, "name": "another"}
                return [self._volume(volume, owner, kind), _claim(namespace, name, volume=volume)]
        modes = ["ReadWriteOncePod"] if kind == "once" else [self._dice.pick(("ReadWriteOnce", "ReadWriteMany"))]
        owner = {"namespace": namespace, "name": name}
        made = self._volume(volume, owner, kind)
        made["spec"]["accessModes"] = modes
        claim = _claim(namespace, name, volume=volume, modes=modes)
        if kind == "leaving":
            claim["metadata"]["finalizers"] = [STAYS]
        return [made, claim]

    def _volume(self, name: str, claim: Json, kind: str) -> Json:
        dice = self._dice
        spec: Json = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        if kind == "plain" and dice.chance(15):
            spec["nfs"] = {"server": "nfs.example.com", "path": "/"}
        else:
            # Two volumes may be one and the same thing behind the scenes.
            handle = "shared" if dice.chance(10) else name
            spec["csi"] = {"driver": dice.pick((DRIVERS[0], DRIVERS[0], DRIVERS[1])), "volumeHandle": handle}
        labels: dict[str, str] = {}
        if kind == "near":
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": self._terms()}}
        elif kind == "zoned":
            for _ in range(dice.number(1, 2)):
                key = dice.pick((ZONE, ZONE, OLD_ZONE, REGION, OLD_REGION))
                labels[key] = dice.pick(("z1", "z2", "z1__z3") if "zone" in key else ("r1", "r1__r2"))
        metadata = {"name": name, "labels": labels}
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}

    def _terms(self) -> list[Json]:
        dice = self._dice
        options: tuple[Json, ...] = (
            {"key": ZONE, "operator": "In", "values": dice.some(ZONES, 1, 2)},
            {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
            {"key": "disk", "operator": "Exists"},
            {"key": "cores", "operator": "Gt", "values": ["4"]},
        )
        return [{"matchExpressions": dice.some(options, 1, 2)} for _ in range(dice.number(1, 2))]


def _claim(
    namespace: str, name: str, *, storage_class: str = "", volume: str = "", modes: list[str] | None = None
) -> Json:
    spec: Json = {
        "accessModes": modes or ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if volume:
        spec["volumeName"] = volume
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
