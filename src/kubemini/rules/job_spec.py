"""What must hold for the spec of a Job, wherever it is: in the Job itself, or in the template of a CronJob.

`job` and `cron_job` ask. In a template nothing is filled in but what concerns pods, so every field may be open here.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import (
    duplicate,
    each_wrong,
    negative,
    one_of,
    required,
    too_long,
    too_many,
    unsupported,
    wrong,
)
from kubemini.rules.pod_spec import default_pod_spec, template_faults

_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_MOST_PARALLEL = 100_000


def default_job_pods(spec: Json) -> None:
    """Fill in what is open about the pods of a Job, and about which of their failures count."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions", ()):
            pattern["status"] = pattern["status"] or "True"
    default_pod_spec(spec["template"]["spec"])


def job_spec_faults(path: str, spec: Json) -> Iterator[Fault]:
    """What is wrong with a spec, but for its selector."""
    for key in _COUNTS:
        yield from negative(f"{path}.{key}", spec.get(key))
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if (manager := spec.get("managedBy")) is not None:
        yield from _manager_faults(f"{path}.managedBy", manager)
    yield from _index_faults(path, spec)
    if "podFailurePolicy" in spec:
        yield from _failure_policy_faults(f"{path}.podFailurePolicy.rules", spec)
    allowed = ["Failed"] if "podFailurePolicy" in spec else ["Failed", "TerminatingOrFailed"]
    if "podReplacementPolicy" in spec and spec["podReplacementPolicy"] not in allowed:
        yield unsupported(f"{path}.podReplacementPolicy", spec["podReplacementPolicy"], allowed)
    yield from template_faults(f"{path}.template", spec["template"])
    at, policy = f"{path}.template.spec.restartPolicy", spec["template"]["spec"]["restartPolicy"]
    if policy == "Always":
        yield required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield unsupported(at, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield wrong(at, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _index_faults(path: str, spec: Json) -> Iterator[Fault]:
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        yield unsupported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        if "completions" not in spec:
            yield required(f"{path}.completions", "when completion mode is Indexed")
        elif "maxFailedIndexes" in spec and spec["maxFailedIndexes"] > spec["completions"]:
            why = "must be less than or equal to completions"
            yield wrong(f"{path}.maxFailedIndexes", spec["maxFailedIndexes"], why)
        if spec.get("parallelism", 1) > _MOST_PARALLEL:
            why = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is Indexed"
            yield wrong(f"{path}.parallelism", spec["parallelism"], why)
        return
    for key in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if key in spec:
            yield wrong(f"{path}.{key}", spec[key], "requires indexed completion mode")


def _manager_faults(path: str, manager: str) -> Iterator[Fault]:
    host, slash, rest = manager.partition("/")
    if not manager:
        yield required(path)
    elif not slash or not host or not rest:
        yield wrong(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from each_wrong(path, host, names.subdomain(host))
    if len(manager) > 63:
        yield too_long(path, 63)


def _failure_policy_faults(path: str, spec: Json) -> Iterator[Fault]:
    rules = spec["podFailurePolicy"]["rules"] or ()
    inner = spec["template"]["spec"]
    containers = {each["name"] for key in ("containers", "initContainers") for each in inner.get(key) or ()}
    if len(rules) > 20:
        yield too_many(path, len(rules), 20)
    for number, rule in enumerate(rules):
        at = f"{path}[{number}]"
        if rule["action"] == "FailIndex" and "backoffLimitPerIndex" not in spec:
            yield wrong(f"{at}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
        yield from one_of(f"{at}.action", rule["action"], _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions", ())
        if codes is not None:
            yield from _exit_code_faults(f"{at}.onExitCodes", codes, containers)
        for index, pattern in enumerate(conditions):
            here = f"{at}.onPodConditions[{index}]"
            yield from each_wrong(f"{here}.type", pattern["type"], names.label_key(pattern["type"]))
            yield from one_of(f"{here}.status", pattern["status"], ("False", "True", "Unknown"))
        if codes is not None and conditions:
            yield wrong(at, rule, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not conditions:
            yield wrong(at, rule, "specifying one of OnExitCodes and OnPodConditions is required")


def _exit_code_faults(path: str, codes: Json, containers: set[str]) -> Iterator[Fault]:
    yield from one_of(f"{path}.operator", codes["operator"], ("In", "NotIn"))
    if "containerName" in codes and codes["containerName"] not in containers:
        why = "must be one of the container or initContainer names in the pod template"
        yield wrong(f"{path}.containerName", codes["containerName"], why)
    values = codes["values"] or []
    if not values:
        yield wrong(f"{path}.values", values, "at least one value is required")
    elif len(values) > 255:
        yield too_many(f"{path}.values", len(values), 255)
    for number, value in enumerate(values):
        if codes["operator"] == "In" and value == 0:
            yield wrong(f"{path}.values[{number}]", value, "must not be 0 for the In operator")
        if value in values[:number]:
            yield duplicate(f"{path}.values[{number}]", value)
    if values != sorted(values):
        yield wrong(f"{path}.values", values, "must be ordered")
