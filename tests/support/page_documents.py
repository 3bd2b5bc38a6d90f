"""What the page's API answers, made up: a cluster of any size with something of everything that a view can show.

`page_fixture` serves it. Names are as long as they get, numbers go past 100 %, and some texts look like markup, so that
a view that cannot cope shows it. The same size gives the same documents but for the times, which count from now.
"""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

from rescheduler.model.json import Json

ZONES = ["", "zone-a", "zone-b", "zone-c"]
POOLS = ["general", "gpu", "memory-optimised-spot"]
ODD_STATES = (1, 2, 2 | 4, 8, 16, 32, 64)
MARKUP = "<img src=x onerror=alert(1)>"
HANDOFF = ["CheckBudgets", "CreateCopy", "Nominate", "Ungate", "Land", "AwaitReady", "Cheapen", "HandOver", "AwaitGone"]
EVICT = ["Protect", "TakeTurn", "Pause", "Prefer", "Mark", "Evict", "AwaitRebuilt", "Restore", "AwaitRebuiltReady"]
LONG_NAME = "a-very-long-workload-name-as-helm-charts-make-them-7d9c5b8f4-x2k9q"
CAPACITY_CPU, CAPACITY_MEMORY, CAPACITY_PODS = 16_000, 64 << 30, 110
GUARDS = {
    "DisruptionBudget": "disruption budget queue allows no disruption",
    "LocalStorage": "it has data on its node: volume scratch (emptyDir)",
    "MinPodAge": "it is 12 s old (minPodAge 1m0s)",
    "CoolDown": "a pod of its workload was moved 2m10s ago (coolDown 10m0s)",
    "MaxReschedulePods": f"the plan is full (maxReschedulePods 10) {MARKUP}",
}


def documents(count: int) -> dict[str, Json]:
    """By the path below `/api/`; those of single nodes and pods are made by `node` and `pod`."""
    now = time.time()
    nodes = _nodes(count)
    plan = _plan(nodes, now)
    migrations = _migrations(nodes, now)
    return {
        "nodes": nodes,
        "overview": _overview(nodes, migrations, now),
        "spread": {"samples": _samples(nodes, now)},
        "plan": plan,
        "migrations": {"migrations": migrations, "more": 0},
        "outcomes": _outcomes(now),
        "config": _config(now),
    }


def _nodes(count: int) -> Json:
    rolled = random.Random(count)
    names = sorted(
        f"worker-{number:04}" if number != 3 else f"ip-10-0-12-{number}.eu-central-1.compute.internal-{'x' * 24}"
        for number in range(count)
    )
    hot = {number for number in range(count) if number % 9 == 4}

    def share(number: int) -> float:
        return round(rolled.uniform(85, 108) if number in hot else rolled.triangular(5, 75, 40), 2)

    return {
        "revision": 7,
        "names": names,
        "cpu": [share(number) for number in range(count)],
        "memory": [share(number + 2) for number in range(count)],
        "pods": [rolled.randint(3, 110) for _ in range(count)],
        "podRoom": [CAPACITY_PODS] * count,
        "zone": [number % len(ZONES) for number in range(count)],
        "zones": ZONES,
        "pool": [number // 3 % len(POOLS) for number in range(count)],
        "pools": POOLS,
        "resources": [],
        "others": [],
        "rule": [0] * count,
        "state": [
            ODD_STATES[number // 5 % len(ODD_STATES)] if number % 5 == 1 and number < 200 else 0
            for number in range(count)
        ],
    }


def _figures(values: list[float]) -> dict[str, float]:
    if not values:
        return {"max": 0.0, "min": 0.0, "mean": 0.0, "stddev": 0.0}
    found = {
        "max": max(values),
        "min": min(values),
        "mean": statistics.fmean(values),
        "stddev": statistics.pstdev(values),
    }
    return {name: round(value, 2) for name, value in found.items()}


def _hot(nodes: Json) -> int:
    return sum(max(cpu, memory) > 80 for cpu, memory in zip(nodes["cpu"], nodes["memory"], strict=True))


def _samples(nodes: Json, now: float) -> list[Json]:
    """Further apart the longer ago."""
    hot, figures = _hot(nodes), {metric: _figures(nodes[metric]) for metric in ("cpu", "memory")}
    return [
        {
            "time": now - 5 * age,
            "hotNodes": hot + age // 60,
            "completed": 300 - age,
            **{
                metric: {
                    "max": min(found["max"] + age / 20, 130),
                    "min": max(found["min"] - age / 40, 0),
                    "mean": found["mean"],
                }
                for metric, found in figures.items()
            },
        }
        for age in range(300, 0, -1)
    ]


def _overview(nodes: Json, migrations: list[Json], now: float) -> Json:
    def counted(phase: str) -> int:
        return sum(each["phase"] == phase for each in migrations)

    return {
        "version": "0.1.0",
        "cluster": "https://fixture.example:6443",
        "now": now,
        "replica": {"identity": "rescheduler-6f7d9-abcde", "leading": True, "leader": "rescheduler-6f7d9-abcde"},
        "paused": None,
        "window": None,
        "approval": "required",
        "access": "token",
        "interval": 30.0,
        "nextPlan": now + 17,
        "counts": {
            "nodes": len(nodes["names"]),
            "pods": sum(nodes["pods"]),
            "pending": counted("Pending"),
            "inProgress": counted("InProgress"),
            "completed": counted("Completed"),
            "failed": counted("Failed"),
            "awaitingApproval": sum(each["awaitsApproval"] for each in migrations),
        },
        "utilisation": {"cpu": _figures(nodes["cpu"]), "memory": _figures(nodes["memory"]), "hotNodes": _hot(nodes)},
        "use": {"by": "requests", "counts": False, "measured": None, "why": ""},
        "thresholds": {"cpu": 80.0, "memory": 80.0, "imbalance": 20.0},
        "rules": [{"pool": "", "cpu": 80.0, "memory": 80.0}],
        "health": [
            {"name": "nodes", "ok": True, "why": "", "count": len(nodes["names"]), "lag": 0.2},
            {"name": "pods", "ok": True, "why": "", "count": sum(nodes["pods"]), "lag": 0.4},
            {
                "name": "poddisruptionbudgets",
                "ok": False,
                "why": "no answer for 41 s: 503 Service Unavailable",
                "count": 12,
                "lag": 41.0,
            },
            {"name": "webhook", "ok": True, "why": "", "count": None, "lag": None},
        ],
        "configuration": {"revision": 1, "refused": True},
        "warnings": ["under maintenance, but NodeMaintenance is not among enabledStrategies: worker-0006"],
    }


def _at(nodes: Json, place: int) -> str:
    names: list[str] = nodes["names"]
    return names[place % len(names)]


def _plan(nodes: Json, now: float) -> Json:
    if not nodes["names"]:
        return {"made": None, "seconds": 0.0, "by": "rescheduler-6f7d9-abcde", "plan": None, "awaiting": []}
    moves = [
        {
            "namespace": "shop",
            "pod": LONG_NAME if number == 2 else f"web-5b8f7d9c4-{number:05}",
            "from": _at(nodes, 4 + 9 * number),
            "to": _at(nodes, 5 + 9 * number),
            "strategy": "ResourceOptimization" if number % 2 else "LoadBalancing",
            "reason": f"{_at(nodes, 4 + 9 * number)} is at 86.2% CPU (threshold 80%); "
            f"{_at(nodes, 5 + 9 * number)} is then at 12.5% CPU and 7.8% memory",
            "method": ("handoff", "evict", "copy")[number % 3],
            "uid": f"uid-{number}",
            "workload": "Deployment/web" if number % 3 != 2 else "Pod/lonely",
            "priority": 0,
            "proposal": number // 2,
        }
        for number in range(min(10, len(nodes["names"])))
    ]
    rejections = [
        {
            "namespace": "shop" if place % 2 else "kube-monitoring-and-alerting",
            "pod": f"queue-{place}-{copy}",
            "guard": guard,
            "reason": reason,
            "strategy": "LoadBalancing",
            "node": _at(nodes, place),
        }
        for place, (guard, reason) in enumerate(GUARDS.items())
        for copy in range(1 if len(nodes["names"]) < 100 else 150)
    ]
    before: Json = {"cpu": _figures(nodes["cpu"]), "memory": _figures(nodes["memory"]), "hotNodes": _hot(nodes)}
    after = {
        **before,
        "cpu": {"max": 74.1, "min": 31.4, "mean": before["cpu"]["mean"], "stddev": 8.2},
        "hotNodes": 0,
    }
    plan = {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "Plan",
        "moves": moves,
        "rejections": rejections,
        "before": before,
        "after": after,
        "warnings": ["under maintenance, but NodeMaintenance is not among enabledStrategies: worker-0006"],
        "utilization": "requests",
    }
    awaiting = [{"namespace": "shop", "name": f"web-5b8f7d9c4-{number:05}-waits"} for number in range(2)]
    return {"made": now - 13, "seconds": 0.42, "by": "rescheduler-6f7d9-abcde", "plan": plan, "awaiting": awaiting}


def _migrations(nodes: Json, now: float) -> list[Json]:
    if not nodes["names"]:
        return []
    found = [
        migration(nodes, f"web-5b8f7d9c4-{number:05}-waits", now, phase="Pending", awaitsApproval=True)
        | {"pod": f"web-5b8f7d9c4-{number:05}"}
        for number in range(2)
    ]
    found += [
        migration(nodes, "web-moving", now, phase="InProgress", step="AwaitReady"),
        migration(nodes, f"{LONG_NAME}-moving", now, phase="InProgress", step="Evict", method="evict", steps=EVICT)
        | {"pod": LONG_NAME, "attempts": 2, "message": "the budget allows no eviction now; tried again in 4 s"},
        migration(nodes, "web-failed", now, phase="Failed", step="AwaitReady", completion_time=now - 60)
        | {
            "attempts": 3,
            "message": "rolled back: the replacement was not Ready after 10m0s: 0/4000 nodes are available, "
            f"ImagePullBackOff: {MARKUP} " + "and more of it " * 12,
        },
    ]
    verdicts = [("Paid", 6.2, 5.9), ("NotPaid", 6.2, 0.1), ("CameBack", 3.1, None), ("Unknown", None, None)]
    for number in range(12 if len(nodes["names"]) < 100 else 400):
        verdict, predicted, realised = verdicts[number % 4]
        done = migration(nodes, f"done-{number:03}", now - 100 - number * 7, phase="Completed", step="AwaitGone")
        outcome = {"predicted": predicted, "realised": realised, "verdict": verdict}
        found.append(done | {"finished": now - 90 - number * 7, "outcome": outcome})
    return found


def migration(nodes: Json, name: str, now: float, **fields: Any) -> Json:
    """A row of /api/migrations, with these fields over those of a handoff that has just been ordered."""
    steps: list[str] = fields.get("steps", HANDOFF)
    step = fields.get("step", "")
    seen = steps[: steps.index(step) + 1] if step else []
    row = {
        "namespace": "shop",
        "name": name,
        "pod": "web-5b8f7d9c4-2mdkq",
        "source": _at(nodes, 4),
        "target": _at(nodes, 5),
        "strategy": "LoadBalancing",
        "reason": f"{_at(nodes, 4)} is at 76.2% CPU, the least used node at 12.5% (imbalanceThreshold 20)",
        "method": "handoff" if step else None,
        "phase": "Pending",
        "step": "",
        "steps": steps,
        "history": [{"step": each, "time": now - 12 + place} for place, each in enumerate(seen)],
        "message": "",
        "attempts": 1 if step else 0,
        "created": now - 14,
        "started": now - 12 if step else None,
        "finished": None,
        "awaitsApproval": False,
        "approvedBy": "",
        "plan": "plan-5d8c",
        "workload": "Deployment/web",
        "replacement": "",
        "outcome": None,
    }
    return row | fields


def _outcomes(now: float) -> Json:
    return {
        "workloads": [
            {
                "workload": f"Deployment/{name}",
                "namespace": "shop",
                "bad": bad,
                "restsUntil": now + 600 * bad if bad > 1 else None,
                "why": f"{bad} moves in a row did not pay: predicted 6.2 points, came true 0.1 {MARKUP}",
            }
            for name, bad in (("web", 1), ("search", 3), (LONG_NAME, 5))
        ]
    }


def _config(now: float) -> Json:
    lines = ["apiVersion: rescheduler.io/v1alpha1", "kind: ReschedulerConfiguration", "reschedulingInterval: 30s"]
    lines += [
        f"excludedPodSelector: '{'app in (a, b, c), ' * 12}tier'",
        "cpuThreshold: 80.0",
        "webhook:",
        "  enabled: false",
    ]
    about = "Shrinks the spread between the most and the least used nodes, until it is within imbalanceThreshold."
    return {
        "since": now - 3600,
        "waiting": ["leaderElection.leaseDuration", "webhook.certificates.certificateFile"],
        "refusal": {"at": now - 90, "errors": [f"cpuThreshold: 180 is not at most 100 {MARKUP}", LONG_NAME], "more": 3},
        "yaml": "\n".join(lines + [f"option{number}: {number}" for number in range(60)]) + "\n",
        "strategies": [
            {
                "name": name,
                "enabled": on,
                "about": about,
                "settings": {"cpuThreshold": 80.0, "imbalanceThreshold": 20.0},
                "pools": {"gpu": {"enabled": not on, "settings": {"imbalanceThreshold": 35.0}}},
            }
            for name, on in (("LoadBalancing", True), ("ResourceOptimization", True), ("NodeMaintenance", False))
        ],
        "pools": [
            {
                "name": "gpu",
                "nodeSelector": "pool=gpu,tier notin (spot)",
                "thresholds": {"cpu": 90.0, "memory": 80.0, "example.com/a-resource-with-a-long-name": 75.0},
                "mode": "absolute",
                "enabled": ["NodeMaintenance"],
            },
            {
                "name": "empty",
                "nodeSelector": "pool=empty",
                "thresholds": {"cpu": 10.0, "memory": 10.0},
                "mode": "deviation",
                "enabled": [],
            },
        ],
    }


def node(nodes: Json, name: str) -> Json:
    """/api/nodes/NAME, of one of these."""
    place = nodes["names"].index(name)
    cpu, memory, count = nodes["cpu"][place], nodes["memory"][place], nodes["pods"][place]
    state = nodes["state"][place]
    words = {1: "not ready", 2: "cordoned", 4: "maintenance", 8: "control plane", 16: "being deleted"}
    zone = nodes["zones"][nodes["zone"][place]]
    return {
        "name": name,
        "labels": {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": zone,
            "node.kubernetes.io/pool": nodes["pools"][nodes["pool"][place]],
            "example.com/a-label-with-a-long-name": "and-a-value-that-is-just-as-long-as-kubernetes-allows-it-to-be",
        },
        "taints": ["dedicated=search:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"] if state else [],
        "states": [word for bit, word in words.items() if state & bit],
        "allocatable": {"cpu": CAPACITY_CPU, "memory": CAPACITY_MEMORY, "pods": CAPACITY_PODS},
        "used": {"cpu": cpu * CAPACITY_CPU / 100, "memory": memory * CAPACITY_MEMORY / 100, "pods": count},
        "cpu": cpu,
        "memory": memory,
        "pool": "",
        "thresholds": {"cpu": 80.0, "memory": 80.0},
        "over": [resource for resource, share in (("cpu", cpu), ("memory", memory)) if share > 80],
        "pods": [
            {
                "namespace": "shop",
                "name": LONG_NAME if number == 1 else f"web-5b8f7d9c4-{number:05}",
                "workload": "Deployment/web",
                "cpu": round(cpu * CAPACITY_CPU / 100 / count),
                "memory": round(memory * CAPACITY_MEMORY / 100 / count),
                "usage": None,
                "phase": "Running" if number % 7 else "Pending",
                "ready": bool(number % 7),
                "created": time.time() - 3600 * number,
                "guard": "" if number % 3 else "DisruptionBudget",
                "why": "" if number % 3 else GUARDS["DisruptionBudget"],
            }
            for number in range(count)
        ],
    }


def pod(nodes: Json, plan: Json, namespace: str, name: str) -> Json:
    """/api/pods/NAMESPACE/NAME: an explanation; whoever is in the plan is moved, others are rejected."""
    chosen = plan["plan"] or {"moves": [], "strategies": []}
    move = next((each for each in chosen["moves"] if each["pod"] == name), None)
    reason = GUARDS["DisruptionBudget"]
    rejection = {"namespace": namespace, "pod": name, "guard": "DisruptionBudget", "reason": reason}
    rejection |= {"strategy": "LoadBalancing", "node": _at(nodes, 1)}
    names = nodes["names"]
    feasible = [place % 4 == 3 for place in range(len(names))]
    return {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "Explanation",
        "namespace": namespace,
        "pod": name,
        "node": move["from"] if move else _at(nodes, 1),
        "workload": "Deployment/web",
        "priority": 0,
        "evictionCost": {"cost": -5, "annotation": "controller.kubernetes.io/pod-deletion-cost"} if move else None,
        "requests": {"cpu": "350m", "memory": "1Gi"},
        "outcome": "moved" if move else "rejected",
        "why": move["reason"] if move else reason,
        "move": move,
        "rejection": None if move else rejection,
        "objections": [] if move else [{"guard": guard, "reason": why} for guard, why in list(GUARDS.items())[:2]],
        "method": "handoff",
        "notHandoff": "" if move else "only a ReplicaSet adopts a pod that is made beside its own",
        "strategies": ["ResourceOptimization", "LoadBalancing"],
        "refusals": [
            {
                "predicate": "Resources",
                "reason": "Insufficient cpu",
                "nodes": [each for each, fits in zip(names, feasible, strict=True) if not fits],
            }
        ],
        "nodes": [
            {
                "node": each,
                "feasible": fits,
                "predicate": "" if fits else "Resources",
                "reason": "" if fits else "Insufficient cpu",
                "cpu": nodes["cpu"][place],
                "memory": nodes["memory"][place],
            }
            for place, (each, fits) in enumerate(zip(names, feasible, strict=True))
        ],
        "warnings": [],
        "pool": "",
        "utilization": "requests",
        "usage": None,
    }
