"""Rolled rules of pods: one function a kind of rule, each of which adds something to a pod's spec.

They are named by the predicate that they are for. A pod gets one of them ("apart") or several ("together"); `pods`
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rescheduler.model.json import Json
from tests.contract.agreement import storage
from tests.contract.agreement.nodes import ZONES
from tests.contract.agreement.world import HOSTNAME, REGION, ZONE, Dice, namespace_of

Rule = Callable[["Ground", Json], None]

TOPOLOGIES = (ZONE, ZONE, HOSTNAME, HOSTNAME, "disk", REGION)
SELECTORS: tuple[Json | None, ...] = (
    {"matchLabels": {"role": "web"}},
    {"matchLabels": {"role": "db"}},
    {"matchLabels": {"role": "cache"}},
    {"matchLabels": {"tier": "front"}},
    {"matchLabels": {"role": "web", "tier": "back"}},
    {"matchExpressions": [{"key": "role", "operator": "In", "values": ["web", "cache"]}]},
    {
        "matchExpressions": [
            {"key": "role", "operator": "NotIn", "values": ["db"]},
            {"key": "tier", "operator": "Exists"},
        ]
    },
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}], "matchLabels": {"role": "db"}},
    {},
    None,
)


@dataclass(frozen=True)
class Ground:
    """What rules can refer to."""

    dice: Dice
    world: str
    nodes: Sequence[str]
    namespaces: Sequence[str]
    shelf: storage.Shelf
    version: str
    """Of the Kubernetes that is asked."""


def fit(ground: Ground, pod: Json) -> None:
    """Requests, of every form in which they can be written; pods that stand there are smaller than those that come."""
    dice, spec = ground.dice, pod["spec"]
    large = "nodeName" not in spec
    cpu = dice.pick(("0.5", "1", "1500m", "3.7", "6", "0") if large else ("100m", "0.25", "500m", "1", "0"))
    memory = dice.pick(("500M", "1Gi", "1.5Gi", "6e9", "0") if large else ("64Mi", "256M", "0.5Gi", "0"))
    main = spec["containers"][0]["resources"]
    main["requests"] = {"cpu": cpu, "memory": memory}
    match dice.number(0, 9):
        case 0 | 1:
            amount = dice.pick(("1", "2", "3"))
            main |= {"limits": {"example.com/gpu": amount}}  # an extended resource is asked for by its limit
        case 2:
            main |= {"limits": {"hugepages-2Mi": dice.pick(("64Mi", "100Mi", "128Mi"))}}
        case 3:
            main["requests"]["ephemeral-storage"] = dice.pick(("5Gi", "20Gi", "11G"))
        case 4 | 5:
            spec["initContainers"] = [_init(dice, number, large=large) for number in range(dice.number(1, 3))]
        case 6:
            spec["runtimeClassName"] = f"{ground.world}-heavy"
        case 7:
            main["requests"] = {"cpu": "100m", "memory": "64Mi"}
            spec["resources"] = {"requests": {"cpu": dice.pick(("4", "7") if large else ("0.5",)), "memory": "1Gi"}}
        case 8:
            second = {"requests": {"cpu": dice.pick(("250m", "1")), "memory": "256Mi"}}
            spec["containers"].append(_container("second", second))


def _init(dice: Dice, number: int, *, large: bool) -> Json:
    cpu = dice.pick(("1", "3", "4") if large else ("200m", "0.4"))
    requests = {"cpu": cpu, "memory": dice.pick(("128Mi", "1Gi", "3Gi") if large else ("64Mi", "512Mi"))}
    made = _container(f"init{number}", {"requests": requests})
    if dice.chance(50):
        made["restartPolicy"] = "Always"
    return made


def _container(name: str, resources: Json) -> Json:
    return {"name": name, "image": "hollow:1", "resources": resources}


def taints(ground: Ground, pod: Json) -> None:
    options: tuple[Json, ...] = (
        {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "web"},
        {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
        {"key": "spot", "operator": "Equal", "value": "yes"},
        {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"operator": "Exists", "effect": "NoExecute"},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    )
    pod["spec"]["tolerations"] = ground.dice.some(options, 0, 3)


def node_affinity(ground: Ground, pod: Json) -> None:
    dice, spec = ground.dice, pod["spec"]
    if dice.chance(10):
        spec["runtimeClassName"] = f"{ground.world}-picky"
        return
    if dice.chance(30):
        spec["nodeSelector"] = dice.pick(({"disk": "ssd"}, {ZONE: "z1"}, {"kubernetes.io/os": "linux"}, {"disk": ""}))
    terms = [_node_term(ground) for _ in range(dice.number(1, 2))]
    required = {"nodeSelectorTerms": terms}
    _affinity(pod)["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    if dice.chance(20):
        preferred = {"weight": 5, "preference": _node_term(ground)}
        _affinity(pod)["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = [preferred]


def _node_term(ground: Ground) -> Json:
    dice = ground.dice
    if dice.chance(5):
        return {}  # an empty term means no node
    if dice.chance(15):
        operator = dice.pick(("In", "NotIn"))
        field = {"key": "metadata.name", "operator": operator, "values": [dice.pick(ground.nodes)]}
        return {"matchFields": [field]}
    options: tuple[Json, ...] = (
        {"key": "disk", "operator": "In", "values": ["ssd", ""]},
        {"key": "disk", "operator": "NotIn", "values": ["ssd"]},
        {"key": "disk", "operator": "Exists"},
        {"key": "disk", "operator": "DoesNotExist"},
        {"key": "cores", "operator": "Gt", "values": ["2"]},
        {"key": "cores", "operator": "Lt", "values": ["8"]},
        {"key": ZONE, "operator": "In", "values": dice.some(ZONES, 1, 2)},
        {"key": ZONE, "operator": "NotIn", "values": ["z1"]},
        {"key": HOSTNAME, "operator": "In", "values": dice.some(ground.nodes, 1, 4)},
    )
    return {"matchExpressions": dice.some(options, 1, 2)}


def pod_affinity(ground: Ground, pod: Json) -> None:
    terms = [_pod_term(ground) for _ in range(ground.dice.pick((1, 1, 1, 2)))]
    _affinity(pod)["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def pod_anti_affinity(ground: Ground, pod: Json) -> None:
    terms = [_pod_term(ground) for _ in range(ground.dice.pick((1, 1, 2)))]
    _affinity(pod)["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _pod_term(ground: Ground) -> Json:
    dice = ground.dice
    term: Json = {"topologyKey": dice.pick(TOPOLOGIES)}
    selector = dice.pick(SELECTORS)
    if selector is not None:
        term["labelSelector"] = selector
        if dice.chance(15):
            term[dice.pick(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
    if dice.chance(25):
        term["namespaces"] = dice.some(ground.namespaces, 1, 2)
    if dice.chance(25):
        options: tuple[Json, ...] = (
            {},
            {"matchLabels": {"team": "shop"}},
            {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
            {"matchLabels": {"kubernetes.io/metadata.name": dice.pick(ground.namespaces)}},
        )
        if _takes_negations_for_all(ground.version):
            options = tuple(each for each in options if "matchExpressions" not in each)
        # An empty selector in all namespaces would select the guests too: see `roll`.
        term["namespaceSelector"] = dice.pick(options[1:] if selector == {} else options)
    return term


def _takes_negations_for_all(version: str) -> bool:
    """Before v1.37 the scheduler took a namespaceSelector of the incoming pod that says NotIn or DoesNotExist for one
    that selects every namespace: it lost the namespaces that it had found, and asked the selector about no labels."""
    return int(version.split(".")[1]) < 37


def spread(ground: Ground, pod: Json) -> None:
    dice = ground.dice
    keys = dice.some((ZONE, HOSTNAME, "disk", REGION), 1, 2)
    pod["spec"]["topologySpreadConstraints"] = [_constraint(dice, key) for key in keys]


def _constraint(dice: Dice, key: str) -> Json:
    hard = not dice.chance(10)
    made: Json = {
        "maxSkew": dice.pick((1, 1, 2, 3)),
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
    }
    selector = dice.pick(SELECTORS)
    if selector is not None:
        made["labelSelector"] = selector
        if dice.chance(25):
            made["matchLabelKeys"] = ["version"]
    if hard and dice.chance(30):
        made["minDomains"] = dice.number(1, 4)
    if dice.chance(30):
        made["nodeAffinityPolicy"] = dice.pick(("Ignore", "Honor"))
    if dice.chance(30):
        made["nodeTaintsPolicy"] = dice.pick(("Ignore", "Honor"))
    return made


def ports(ground: Ground, pod: Json) -> None:
    dice, spec = ground.dice, pod["spec"]
    options: tuple[Json, ...] = (
        {"hostPort": 8080},
        {"hostPort": 8080, "hostIP": "10.0.0.1"},
        {"hostPort": 8080, "hostIP": "10.0.0.2"},
        {"hostPort": 8080, "hostIP": "0.0.0.0"},
        {"hostPort": 8080, "protocol": "UDP"},
        {"hostPort": 9090},
        {"hostPort": 9090, "protocol": "SCTP"},
        {},
    )
    wanted = [{"containerPort": 8080 + number, **port} for number, port in enumerate(dice.some(options, 1, 2))]
    if dice.chance(20):
        spec["hostNetwork"] = True
        wanted = [{"containerPort": dice.pick((8080, 9090, 9100))}]  # the API makes it the host port
    if dice.chance(25):
        side = _container("side", {})
        side["ports"] = wanted
        if dice.chance(60):
            side["restartPolicy"] = "Always"  # else it is over before the pod runs, and takes no port
        spec.setdefault("initContainers", []).append(side)
    else:
        spec["containers"][0]["ports"] = wanted


def _claims(ground: Ground, pod: Json, kinds: Sequence[str], most: int = 1, variants: int = 3) -> None:
    volumes = pod["spec"].setdefault("volumes", [])
    for _ in range(ground.dice.number(1, most)):
        name = ground.shelf.claim(namespace_of(pod), ground.dice.pick(kinds), variants)
        volumes.append({"name": f"v{len(volumes)}", "persistentVolumeClaim": {"claimName": name}})


def volume_binding(ground: Ground, pod: Json) -> None:
    kinds = (*["near"] * 6, "later", "topo", "topo", "chosen", "static", *storage.STUCK)
    _claims(ground, pod, kinds)


def volume_zone(ground: Ground, pod: Json) -> None:
    _claims(ground, pod, ("zoned",), most=2)


def volume_restrictions(ground: Ground, pod: Json) -> None:
    _claims(ground, pod, ("once",), variants=2)


def volume_limits(ground: Ground, pod: Json) -> None:
    _claims(ground, pod, ("plain", "plain", "plain", "later"), most=3)


def _affinity(pod: Json) -> Json:
    found: Json = pod["spec"].setdefault("affinity", {})
    return found


RULES: dict[str, Rule] = {
    "NodeResourcesFit": fit,
    "TaintToleration": taints,
    "NodeAffinity": node_affinity,
    "NodePorts": ports,
    "PodAntiAffinity": pod_anti_affinity,
    "PodAffinity": pod_affinity,
    "PodTopologySpread": spread,
    "VolumeBinding": volume_binding,
    "VolumeZone": volume_zone,
    "VolumeRestrictions": volume_restrictions,
    "NodeVolumeLimits": volume_limits,
}
