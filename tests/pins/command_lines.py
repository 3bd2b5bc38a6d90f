"""The command lines whose output is pinned, by the golden file that records them.

Paths are relative to the root of the checkout. `{clusters}` and the like are folders of tests/pins/inputs. `< FILE`
gives a file as standard input. The time of a dump is always given, because dumps do not say it.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from rescheduler.cli.main import root

NOW = "--now 2026-11-15T08:00:00Z"


def all_commands() -> Iterator[str]:
    """Every command that has a help text; the first is the root."""
    yield ""
    context = click.Context(root)
    for name in root.list_commands(context):
        yield name
        command = root.get_command(context, name)
        if isinstance(command, click.Group):
            yield from (f"{name} {each}" for each in command.list_commands(context))


_PLANS: dict[str, list[str]] = {
    "crowded": [
        "-o json",
        "-o wide --config {configs}/limits.yaml",
        "-o json --config {configs}/limits.yaml",
        "-o json --config {configs}/every-strategy.yaml",
        "-o json --config {configs}/measured.yaml",
        "-o json --config {configs}/measured.yaml --utilization max",
        "-o json --config {configs}/pools.yaml",
        "--migration-method evict --per-namespace 3 --allow-jobs",
        "-o name --excluded-namespace shop --excluded-pod-selector 'app=web00'",
        "-o yaml -n data -l 'app notin (train0)' --imbalance-threshold 5 --max-reschedule-pods 40",
    ],
    "rules": [
        "-o json --config {configs}/every-strategy.yaml",
        "-o wide --config {configs}/every-strategy.yaml",
        "--strategy Topology --strategy RemoveDuplicates",
        "-o json --strategy TopologySpread --strategy NodeAffinity --max-reschedule-pods 4",
    ],
    "maintenance": [
        "-o json --strategy NodeMaintenance",
        "--strategy NodeMaintenance --max-reschedule-pods unlimited --allow-single-replica --allow-jobs",
        "-o json --config {configs}/every-strategy.yaml",
        "-o wide",
    ],
    "troubled": [
        "-o json --config {configs}/every-strategy.yaml",
        "--config {configs}/every-strategy.yaml --no-headers",
        "-o json --strategy PodLifeTime",
        "-o json --strategy FailedPods --strategy TooManyRestarts",
    ],
    "sparse": [
        "-o json --config {configs}/consolidation.yaml",
        "--config {configs}/consolidation.yaml --per-node-in 3",
        "-o json --strategy Consolidation",
        "-o json",
    ],
    "pending": [
        "-o json --config {configs}/every-strategy.yaml",
        "-o wide --strategy MakeRoom --memory-threshold 95 --cpu-threshold 100",
    ],
    "guards": [
        "-o json --config {configs}/filters.yaml",
        "-o json --config {configs}/no-filters.yaml",
        "--config {configs}/no-filters.yaml --cool-down 1m --min-pod-age 10s --allow-local-storage",
    ],
    "predicates": ["-o json", "-o json --config {configs}/every-strategy.yaml"],
    "rolled-1": ["-o json", "-o json --config {configs}/every-strategy.yaml"],
    "rolled-2": [
        "-o json --config {configs}/every-strategy.yaml",
        "-o json --config {configs}/pools.yaml",
    ],
    "rolled-3": [
        "-o json --config {configs}/every-strategy.yaml",
        "-o json --config {configs}/consolidation.yaml",
        "",
    ],
    "rolled-4": [
        "-o json",
        "-o json --config {configs}/every-strategy.yaml",
        "-o json --config {configs}/limits.yaml",
    ],
    "unknown": ["-o json --strategy NodeMaintenance"],
}
"""By cluster, the flags of each plan."""

_EXPLAINED: dict[str, list[str]] = {
    "crowded": [
        "default/bare-0 -o json --config {configs}/measured.yaml",
        "data/train0-5d4f-00 -o json --config {configs}/pools.yaml",
        "kube-system/agent-node-00",
        "data/report-0 -o wide --config {configs}/limits.yaml",
    ],
    "rules": [
        "wants-ssd-5d4f-00 -o json --config {configs}/every-strategy.yaml",
        "pod/member-b-0 -n shop -o wide --config {configs}/every-strategy.yaml",
        "default/quorum-0 -o json --strategy PodAntiAffinity",
        "default/gang-5d4f-00 --config {configs}/every-strategy.yaml",
        "shop/spread-both-5d4f-00 -o yaml --config {configs}/every-strategy.yaml",
    ],
    "maintenance": [
        "default/huge -o json --strategy NodeMaintenance",
        "default/spent-0 --strategy NodeMaintenance",
        "default/evictees-5d4f-02 -o json --strategy NodeMaintenance",
    ],
    "troubled": [
        "default/crashing-5d4f-00 -o json --config {configs}/every-strategy.yaml",
        "default/gone-0 -o json --config {configs}/every-strategy.yaml",
        "default/retried-5d4f-00 --config {configs}/every-strategy.yaml",
        "default/orphan-done",
    ],
    "sparse": [
        "default/pinned -o wide --config {configs}/consolidation.yaml",
        "default/gpu-user -o json --config {configs}/consolidation.yaml",
    ],
    "pending": [
        f"{pod} -o wide --config {{configs}}/every-strategy.yaml"
        for pod in ("wants-three", "shop/wants-two", "too-large", "gang-0", "port-waits", "fill0-5d4f-00")
    ],
    "guards": [
        f"{pod} -o json --config {{configs}}/filters.yaml"
        for pod in ("movable-5d4f-00", "few-5d4f-00", "claims-0", "spared-emptied", "lost", "waiting")
    ],
    "predicates": [
        f"{pod} -o {form} --strategy NodeMaintenance --strategy ResourceOptimization"
        for pod, form in (
            ("asked-5d4f-00", "json"),
            ("spread-5d4f-00", "wide"),
            ("volumes-0", "json"),
            ("once-0", "wide"),
            ("stuck-0", "wide"),
            ("needs-gpu", "wide"),
            ("leader-5d4f-00", "wide"),
            ("heats", "wide"),
            ("waits", "json"),
        )
    ],
    "rolled-3": ["w05-5d4f-00 -o json --config {configs}/every-strategy.yaml"],
    "unknown": ["known -o wide --strategy NodeMaintenance"],
}
"""By cluster, the pod and the flags of each explanation."""

_GUARDED = [
    "movable-5d4f-00",
    "unreadable",
    "deleting",
    "migrating",
    "daemon-hot",
    "static-hot",
    "kube-system/system",
    "excluded",
    "opted-out",
    "critical",
    "other/outside",
    "unfiltered",
    "not-selected",
    "important",
    "unsafe",
    "undisturbed",
    "undisturbed-for-4h",
    "undisturbed-oddly",
    "dear",
    "dear-koordinator",
    "odd-cost",
    "spared",
    "spared-emptied",
    "young",
    "young-marked",
    "resting-5d4f-00",
    "rolling-5d4f-00",
    "scaling-5d4f-00",
    "scaled-5d4f-00",
    "few-5d4f-00",
    "unmanaged",
    "claims-0",
    "local-data",
    "local-volume-0",
    "inline-disk",
    "devices",
    "batch-0",
    "handoff-wanted-0",
    "odd-method-5d4f-00",
    "only-one-0",
    "spent-0",
    "two-budgets-0",
    "at-once-2",
    "lost",
    "ended",
    "waiting",
    "filler",
    "two-claims-5d4f-00",
]
"""Pods of the cluster `guards`: nearly each is there for another guard."""

_EXAMPLE = [
    "rescheduler plan -f examples/cluster.yaml",
    "rescheduler plan -f examples/cluster.yaml -o wide",
    "rescheduler plan -f examples/cluster.yaml -o json",
    "rescheduler plan -f examples/cluster.yaml -o yaml --strategy NodeMaintenance",
    "rescheduler plan -f examples/cluster.yaml --config examples/rescheduler.yaml",
    "rescheduler plan -f examples/cluster.yaml --config examples/scheduler-config.yaml -o name",
    "rescheduler plan -f - < examples/cluster.yaml",
    "rescheduler explain shop/queue-0 -f examples/cluster.yaml",
    "rescheduler explain shop/queue-0 -f examples/cluster.yaml -o json",
    "rescheduler explain shop/web-5b8f7d9c4-2mdkq -f examples/cluster.yaml -o wide",
    "rescheduler snapshot -f examples/cluster.yaml --now 2026-11-15T08:00:00Z",
]

_CONFIGURATION = [
    "rescheduler config show",
    "rescheduler config show -o json",
    "rescheduler config show --config examples/rescheduler.yaml",
    "rescheduler config show --config {configs}/pools.yaml -o json",
    "rescheduler config show --config examples/scheduler-config.yaml",
    "rescheduler config check examples/rescheduler.yaml examples/scheduler-config.yaml {configs}/pools.yaml",
    "rescheduler config check {configs}/wrong.yaml",
    "rescheduler config check {configs}/wrong-kind.yaml",
    "rescheduler config check {configs}/not-yaml.yaml examples/rescheduler.yaml",
    "rescheduler config check no-such-file.yaml",
    "rescheduler config check no-such-file.yaml {configs}/wrong-kind.yaml",
    "rescheduler config show --config {configs}/wrong-kind.yaml",
]

_CONVERSIONS = [
    "rescheduler convert -f examples/descheduler-policy.yaml",
    "rescheduler convert -f {policies}/descheduler.yaml",
    "rescheduler convert -f {policies}/descheduler.yaml --strict",
    "rescheduler convert -f {policies}/koordinator.yaml",
    "rescheduler convert -f examples/scheduler-config.yaml",
    "rescheduler convert -f - < {policies}/koordinator.yaml",
    "rescheduler convert -f {configs}/wrong-kind.yaml",
    "rescheduler convert -f {configs}/not-yaml.yaml",
    "rescheduler convert -f no-such-file.yaml",
]

_PRINTED = {
    "crds": ["rescheduler crds", "rescheduler crds -o json"],
    "scheduler-config": [
        "rescheduler scheduler-config",
        "rescheduler scheduler-config --insecure-skip-tls-verify -o json",
        "rescheduler scheduler-config --url https://10.96.0.12:443 --scheduler-ca-file /etc/ca.crt --server-name x",
        "rescheduler scheduler-config --weight 5 --timeout 500ms --scheduler-name one --no-leader-elect",
        "rescheduler scheduler-config --scheduler-kubeconfig /etc/scheduler.conf --insecure-skip-tls-verify",
        "rescheduler scheduler-config --insecure-skip-tls-verify --merge examples/scheduler-config.yaml",
        "rescheduler scheduler-config --ca-file no-such-file.crt",
        "rescheduler scheduler-config --weight 0",
    ],
    "completion": [f"rescheduler completion {shell}" for shell in ("bash", "zsh", "fish", "csh")],
    "version": ["rescheduler --version", "rescheduler version", "rescheduler version -o json"],
}

_EXIT_CODES = [
    "rescheduler",
    "rescheduler plam",
    "rescheduler nothing-like-it",
    "rescheduler --no-such-flag",
    "rescheduler plan --no-such-flag",
    "rescheduler plan --strateg X",
    "rescheduler plan -o csv -f examples/cluster.yaml",
    "rescheduler plan -f no-such-file.json",
    "rescheduler plan -f tests/pins/inputs",
    "rescheduler plan -f {configs}/not-yaml.yaml",
    "rescheduler plan -f {configs}/wrong-kind.yaml",
    "rescheduler plan -f - -f - < examples/cluster.yaml",
    "rescheduler plan -f - < {configs}/wrong-kind.yaml",
    "rescheduler plan -f examples/cluster.yaml --kubeconfig {kubeconfigs}/unreachable.yaml",
    "rescheduler plan -f examples/cluster.yaml --now yesterday",
    "rescheduler plan -f examples/cluster.yaml -l 'a in (b'",
    "rescheduler plan -f examples/cluster.yaml --strategy LoadBalance",
    "rescheduler plan -f examples/cluster.yaml --cpu-threshold 180",
    "rescheduler plan -f examples/cluster.yaml --max-reschedule-pods many",
    "rescheduler plan -f examples/cluster.yaml --min-pod-age soon",
    "rescheduler plan -f examples/cluster.yaml --config {configs}/wrong.yaml",
    "rescheduler plan -f examples/cluster.yaml --config no-such-file.yaml",
    "rescheduler plan -f examples/cluster.yaml --exit-code -o name",
    "rescheduler plan -f examples/cluster.yaml --exit-code -o name --max-reschedule-pods 0",
    "rescheduler plan -f examples/cluster.yaml --strategy LoadBalancing --strategy Consolidation",
    "rescheduler explain",
    "rescheduler explain a/b/c/d -f examples/cluster.yaml",
    "rescheduler explain shop/queue-9 -f examples/cluster.yaml",
    "rescheduler explain shp/queue-0 -f examples/cluster.yaml",
    "rescheduler explain queue-0 -n default -f examples/cluster.yaml",
    "rescheduler explain shop/queue-0 -n default -f examples/cluster.yaml",
    "rescheduler snapshot -f examples/cluster.yaml -o yaml",
    "rescheduler snapshot -f no-such-file.json",
    "rescheduler plan",
    "rescheduler plan --kubeconfig no-such-file",
    "rescheduler plan --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler plan --kubeconfig {kubeconfigs}/broken.yaml --context one",
    "rescheduler plan --kubeconfig {kubeconfigs}/not-yaml.yaml",
    "rescheduler plan --kubeconfig {kubeconfigs}/unreachable.yaml --context elsewhere",
    "rescheduler plan --kubeconfig {kubeconfigs}/unreachable.yaml --request-timeout soon",
    "rescheduler plan --kubeconfig {kubeconfigs}/unreachable.yaml",
    "rescheduler explain a/b --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler snapshot --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler apply",
    "rescheduler apply -f no-such-file.json --kubeconfig {kubeconfigs}/unreachable.yaml",
    "rescheduler apply -f {configs}/wrong-kind.yaml --kubeconfig {kubeconfigs}/unreachable.yaml",
    "rescheduler move",
    "rescheduler move shop/queue-0 --timeout 5m --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler move shop/queue-0 --to worker-2 --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler migrations --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler approve",
    "rescheduler approve --all --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler maintenance",
    "rescheduler maintenance start",
    "rescheduler maintenance begin",
    "rescheduler maintenance start worker-1 --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler maintenance status --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler pause --kubeconfig {kubeconfigs}/unreachable.yaml",
    "rescheduler resume --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler cleanup --kubeconfig {kubeconfigs}/unreachable.yaml",
    "rescheduler cleanup --yes --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler run --once --config {configs}/wrong.yaml",
    "rescheduler run --log-format xml",
    "rescheduler run --kubeconfig {kubeconfigs}/broken.yaml",
    "rescheduler run --ui-insecure-local --config {configs}/public-page.yaml",
    "rescheduler config",
    "rescheduler config check",
    "rescheduler completion",
    "rescheduler convert",
    "rescheduler demo --scenario opera",
    "rescheduler demo --nodes 2",
    "rescheduler demo --timeout soon",
]
"""Wrong usage, wrong files and clusters that do not answer."""


def recorded_command_lines() -> Iterator[tuple[str, list[str]]]:
    """Each golden file with the command lines that it records, except the help texts."""
    yield "plans/example", _EXAMPLE
    for cluster, plans in _PLANS.items():
        file = f"{{clusters}}/{cluster}.json.gz"
        yield f"plans/{cluster}", [f"rescheduler plan -f {file} {NOW} {flags}" for flags in plans]
    yield "plans/without-a-time", ["rescheduler plan -f {clusters}/guards.json.gz --config {configs}/no-filters.yaml"]
    for cluster, explained in _EXPLAINED.items():
        file = f"{{clusters}}/{cluster}.json.gz"
        yield f"explanations/{cluster}", [f"rescheduler explain -f {file} {NOW} {words}" for words in explained]
    for config in ("filters", "no-filters"):
        flags = f"-f {{clusters}}/guards.json.gz {NOW} --config {{configs}}/{config}.yaml"
        yield f"explanations/guards-{config}", [f"rescheduler explain {pod} {flags}" for pod in _GUARDED]
    yield "configuration", _CONFIGURATION
    yield "conversions", _CONVERSIONS
    yield from _PRINTED.items()
    yield "exit-codes", _EXIT_CODES
