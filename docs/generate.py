"""Writes what documentation is made from the code: whole pages of docs/, and the output that other pages show.

    python docs/generate.py            write it
    python docs/generate.py --check    write nothing; exit 1 with a diff when a page is out of step

Words come from docstrings, field descriptions and help texts, so that a page cannot say what the code doesn't. Only
what has no docstring of its own is worded here; tests/unit/test_docs.py checks that nothing is missing from it. Shown
output is what the shown command prints on a terminal of 100 columns.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import click
import yaml
from click.testing import CliRunner

from rescheduler.cli.main import root, run
from rescheduler.cli.messages import EXIT_CODES
from rescheduler.cli.output.terminal import Terminal
from rescheduler.config.conversion.reference import TABLES
from rescheduler.config.reference import default_of, reference_markdown
from rescheduler.config.translation import fields_by_name
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.guards import GUARDS
from rescheduler.planning.predicates.nodes import NodeRule
from rescheduler.planning.settings import Settings
from rescheduler.planning.strategy import Strategy
from rescheduler.planning.whatif import WhatIf
from rescheduler.strategies import discover, settings_by_name
from rescheduler.web.metrics import Metrics

ROOT = Path(__file__).parent.parent
_MADE = "<!-- Made by docs/generate.py: change the code and run it again. -->\n"
_VERBATIM = "\b"  # click's mark for a paragraph that is not to be wrapped

GUARD_SETTINGS = {
    "ExcludedNamespace": "`excludedNamespaces`",
    "ExcludedPodSelector": "`excludedPodSelector`",
    "ReschedulingDisabled": "the pod's label `scheduler.alpha.kubernetes.io/rescheduling`",
    "NamespaceFilter": "`filters.namespaces`, `filters.namespaceSelector`",
    "NodeFilter": "`filters.nodeSelector`",
    "PodFilter": "`filters.podSelector`",
    "PriorityThreshold": "`filters.priorityThreshold`",
    "SafeToEvict": "the pod's annotation `cluster-autoscaler.kubernetes.io/safe-to-evict`",
    "DoNotDisrupt": "the pod's annotation `karpenter.sh/do-not-disrupt`",
    "EvictionCost": "the pod's annotations `rescheduler.io/eviction-cost` and "
    "`scheduling.koordinator.sh/eviction-cost`",
    "PreferNoEviction": "`filters.noEvictionPolicy`, the pod's annotation "
    "`descheduler.alpha.kubernetes.io/prefer-no-eviction`",
    "Scaling": "`when.restAfterScaling`",
    "MinReplicas": "`filters.minReplicas`",
    "WithoutController": "`filters.withoutController`",
    "WithoutDisruptionBudget": "`filters.withoutDisruptionBudget`",
    "PersistentVolumes": "`filters.persistentVolumes`, `filters.protectedStorageClasses`",
    "MinPodAge": "`minPodAge`",
    "CoolDown": "`coolDown`",
    "Outcome": "`coolDown`, `outcomes.longestRest`",
    "LocalStorage": "`allow.localStorage`",
    "Job": "`allow.jobs`",
    "SingleReplica": "`allow.singleReplica`, `migrationMethod`",
}
"""Which setting or mark changes a guard; those that are not here always hold."""

PLAN_GUARDS = {
    "AlreadyMoved": ("The pod is in the plan already: no pod moves twice in one plan.", ""),
    "UnknownNode": ("The pod says that it is on a node that the input does not have.", ""),
    "MaxReschedulePods": ("The plan is full. The strategy that asked stops here.", "`maxReschedulePods`"),
    "MovesPerHour": ("More pods that move together or not at all than may go in an hour.", "`when.movesPerHour`"),
    "MovesPerHourPerNamespace": (
        "As many pods of the pod's namespace as may have begun to move within the hour, or are in the plan.",
        "`when.movesPerHourPerNamespace`",
    ),
    "NodeOutLimit": ("As many pods as may have left the pod's node.", "`limits.perNodeOut`"),
    "NamespaceLimit": ("As many pods of the pod's namespace as may are in the plan.", "`limits.perNamespace`"),
    "WorkloadLimit": ("As many pods of the pod's workload as may are in the plan.", "`limits.perWorkload`"),
    "TwoDisruptionBudgets": (
        "Two or more PodDisruptionBudgets select the pod, and it cannot be handed off: the Eviction API refuses it.",
        "`migrationMethod`",
    ),
    "DisruptionBudget": (
        "The pod's PodDisruptionBudget allows no more disruptions after the moves before it. A handoff spends none.",
        "`migrationMethod`",
    ),
    "WorkloadAtOnce": (
        "The plan evicts half of the workload's replicas already (of one replica: that one).",
        "`migrationMethod`",
    ),
    "NoRoom": ("The pod that room was to be made for would not fit all the same.", ""),
    "StillRunning": ("The pod was to be removed, and has not ended.", ""),
    "NoTarget": ("No node can take the pod. The reason counts nodes by the predicate that refuses them.", ""),
}
"""What depends on the rest of the plan (planning.budgets, planning.disruption, planning.hours, planning.planner)."""

NODE_RULES = {
    "ControlPlane": "The node does not run the control plane.",
    "NodeNotReady": "The node is Ready.",
    "NodeUnschedulable": "The node is not cordoned.",
    "Maintenance": "The node is not labelled for maintenance.",
    "NodeDeleting": "The node is not being deleted.",
    "NodeProblem": "The input describes the node in a way that can be understood.",
}
"""Our own rules on the node: they have no class each, so no docstring."""

EXPLAINED = {
    "SameNode": "It is not the node that the pod is on.",
    "Threshold": "The node stays at or under its thresholds with the pod on it.",
    "NodeInLimit": "The node may receive more pods (`limits.perNodeIn`).",
    "AfterTheMove": "Once the pod has left its node, affinity and spread rules still hold for the pods that stay.",
}
"""What `explain` names besides the predicates, since the planner asks for it too."""


_STRATEGIES = """\
A strategy is one reason to move pods. It only proposes; the planner decides (see [architecture](architecture.md)).
Strategies run in the order below, whatever the order in `enabledStrategies`. Each sees the cluster as the moves before
it leave it. A strategy that is not named there is off. Settings go under `strategies.<name>` of the
[configuration](configuration.md):

```yaml
apiVersion: rescheduler.io/v1alpha1
kind: ReschedulerConfiguration
enabledStrategies: [NodeTaints, TooManyRestarts, ResourceOptimization, TopologySpread]
strategies:
  NodeTaints: {includedTaints: [dedicated=ci]}
  TooManyRestarts: {restartThreshold: 20, namespaces: [shop]}
  TopologySpread: {constraints: [DoNotSchedule, ScheduleAnyway]}
```

Wherever pods of lower priority go first, those of lower [eviction cost](when.md#marks) go first among pods of one
priority. Settings of a node pool go over these (`pools[].strategies`). What may be moved at all, by any strategy, is
said by [filters and guards](guards.md), when by [windows](when.md). A strategy of your own is one file: see
[CONTRIBUTING](../CONTRIBUTING.md).
"""

_CONFIGURATION = """\
`rescheduler run` uses all of it; commands that only look use what says which pods move where, and the kubeconfig.
"""

_GUARDS = """\
A guard says which pods are not moved, whatever a strategy wants. A pod that a strategy proposed and a guard refused is
a rejection: `rescheduler plan` lists it with the guard's name and a reason, and `rescheduler explain NAMESPACE/POD`
lists every guard that objects. Pods that no strategy proposed are not listed in a plan.
"""

_PODS_GUARDS = """\
These look at the pod and its owners. They are asked in this order, and the first that objects is the one a plan shows.
"""

_TIME = """\
`MinPodAge` and `CoolDown` need to know the time. A live cluster and a recording of one, made by `rescheduler snapshot`,
say it. For other files only `--now` does; without it a plan warns that both are not checked
([why](adr/0004-the-time-is-never-guessed.md)). `Outcome` goes by the PodMigrations of a live cluster
([what moves came to](outcomes.md)); of files nothing is remembered.
"""

_PREDICATES = """\
A predicate is a rule about a pod and a node. A pod is moved only to a node that all of them let it be on, with all
earlier moves of the plan in place. A pod that is handed off or copied is judged with the original still there, an
evicted one without it. Where several refuse a node, the first in this order is reported. Preferred node affinity and
`PreferNoSchedule` taints refuse nothing: where a strategy leaves the choice open, they rank the targets, together with
how much each node is used.
"""

_ALSO_EXPLAINED = """\
`rescheduler explain NAMESPACE/POD` shows what each node says. It names these too, which the planner asks for on top:
"""

_INSISTING = """\
Strategies that put right what is broken (NodeMaintenance, NodeAffinity, NodeTaints, PodAntiAffinity, and TopologySpread
for hard constraints) fill a node above its thresholds when no other can take a pod; the others never do.
"""

_COMMANDS = """\
Data goes to stdout, messages to stderr. `NO_COLOR` turns colours off. `-o=json` and `-ojson` mean `-o json`. As a
kubectl plugin each command is also `kubectl rescheduler …`.
"""

_METRICS = """\
Every replica serves `/metrics` on `web.port` of the [configuration](configuration.md), in the text format of
Prometheus. [`deploy/prometheus-rules.yaml`](../deploy/prometheus-rules.yaml) has recording rules and alerts, each with
what to do about it, and [`deploy/grafana-dashboard.json`](../deploy/grafana-dashboard.json) a dashboard.
"""

_SHOWN = """\
Counters and histograms tell what the replica itself did since it began; only a leader plans and moves, so those of the
others stay at 0, and `sum` over replicas is right. Gauges are read at every scrape. Those that tell of the cluster or
of a leader's work are shown by the leader alone, and those of the cluster only while what he knows is up to date: so
there is one series of each, and it ends when the lead goes over instead of staying at what was true once.
"""

_BOUNDED = """\
Values of labels are few, whatever people write into objects: a strategy, step or verdict that we do not know is
`Other`. `method` is `none` where a migration ended before a method was chosen. `resource` is `cpu`, `memory`, `pods` or
one that has a threshold in the configuration, and `pool` one of its node pools; nodes that have nothing of a resource
do not count there. Where the page is not served, pods are told of only if they have a threshold. A histogram has the
series `_bucket`, `_sum` and `_count`. A gauge histogram is a distribution at this moment: `_bucket` holds how many are
at or below `le`, `_gcount` how many there are, `_gsum` their sum; use `histogram_quantile` on it without `rate`. The
process itself is in `process_resident_memory_bytes`, `process_cpu_seconds_total` and the other usual ones.
"""


_EVENTS = """\
The controller tells what happens as Kubernetes Events (`events.k8s.io/v1`, `reportingController:
rescheduler.io/rescheduler`), on the objects that it happens to. The same is told once. An Event that cannot be written
is logged and forgotten: no move waits for it. Kubernetes forgets Events after an hour, if nothing else is set there.

```bash
kubectl events --for deployment/web -n shop
kubectl get events -A --field-selector reason=MigrationFailed
```
"""

_MOVE = "pod, its workload, PodMigration"
_ENDED = f"{_MOVE}, both nodes"
_HELPED = "workload, pod"
EVENTS = {
    "Moves": {
        "MigrationStarted": ("Normal", _MOVE, "a move has begun; the note says from where to where, how and why"),
        "MigrationRetried": ("Normal", _MOVE, "a move that was rolled back is tried again"),
        "MigrationRolledBack": (
            "Warning",
            _MOVE,
            "a move could not go on, and everything is as it was; the note says why, and what is tried next",
        ),
        "MigrationCompleted": (
            "Normal",
            f"{_ENDED}, the replacement",
            "the replacement is Ready and the original gone; the note says if it landed elsewhere than planned",
        ),
        "MigrationFailed": ("Warning", _ENDED, "a move is given up; what it had done is taken back"),
        "MigrationNotPaid": (
            "Warning",
            "PodMigration, workload",
            "the gain that a move was made for did not come true; the workload [rests longer](outcomes.md)",
        ),
        "MigrationCameBack": (
            "Warning",
            "PodMigration, workload",
            "a moved pod is on its old node again; the workload [rests longer](outcomes.md)",
        ),
    },
    "Failed pods": {
        "PodRescheduled": (
            "Normal",
            _HELPED,
            "a pod failed on its node; it was deleted, and its replacement avoids the node",
        ),
        "PodRestarted": ("Normal", _HELPED, "the same of a DaemonSet's pod, which is made again on its node"),
        "RetriesExhausted": (
            "Warning",
            _HELPED,
            "the budget of `scheduling-retries` is used up: the pod stays as it is",
        ),
        "NoNodeLeft": ("Warning", _HELPED, "every node that would do has been tried, or none would do now"),
        "WorkloadAtFault": (
            "Warning",
            _HELPED,
            "pods fail in the same way on several nodes: nothing more is done until the template changes",
        ),
        "Recovered": ("Normal", "workload", "all pods have been well for a while: the record is cleared"),
        "RecordTakenOver": (
            "Normal",
            "workload",
            "the record of [kse-rescheduler](failed-pods.md#coming-from-kse-rescheduler) is in ours now",
        ),
        "RecordUnreadable": (
            "Warning",
            "workload",
            "a record cannot be read: `rescheduler.io/failures` is started anew, one of kse-rescheduler is left",
        ),
        "RetriesInvalid": ("Warning", _HELPED, "the value of `scheduling-retries` is no whole number from 0 to 1000"),
        "RetriesMisspelt": (
            "Warning",
            "workload",
            "the annotation is written `scheduling-retires`; it counts, and should be corrected",
        ),
        "RecoveryRefused": ("Warning", _HELPED, "a guard, or the Job's own limits, forbid to delete the pod"),
        "NodesUnreachable": (
            "Warning",
            _HELPED,
            "more than half of all nodes are not ready: a lost node does not count now",
        ),
    },
    "The controller": {
        "ReschedulingPaused": (
            "Normal",
            "ConfigMap `kube-rescheduler-state`",
            "somebody has [paused](approval.md) rescheduling",
        ),
        "ReschedulingResumed": ("Normal", "ConfigMap `kube-rescheduler-state`", "it goes on"),
        "ConfigurationChanged": (
            "Normal",
            "Lease",
            "the configuration's file has changed and is in force; the note names the fields",
        ),
        "ConfigurationAwaitsRestart": ("Warning", "Lease", "a field has changed that needs a restart"),
        "ConfigurationRefused": (
            "Warning",
            "Lease",
            "the file has mistakes, all of them in the note; what was in force stays",
        ),
        "MaintenanceRequested": ("Normal", "node", "somebody has pressed the page's button; the note says who"),
        "MaintenanceEnded": ("Normal", "node", "the same, for the end of maintenance"),
    },
}
"""By chapter and reason: the type, on which objects, and when."""

_RIGHTS = """\
Made of [`deploy/rbac.yaml`](../deploy/rbac.yaml): every rule with the reason that stands beside it there.
`tests/e2e/test_rbac.py` runs the controller with exactly these rights and compares them with the API server's audit
log. What somebody could do with them if the controller were taken over is in [security.md](security.md).
"""
_RBAC = (ROOT / "deploy" / "rbac.yaml").read_text(encoding="utf-8")


def strategies() -> str:
    """One section a strategy, in the order in which they run."""
    parts = ["# Strategies\n", _STRATEGIES]
    for name, strategy in discover().items():
        parts += [f"## {name}\n", f"Order {strategy.order}.\n", f"{inspect.cleandoc(strategy.__doc__ or '')}\n"]
        parts.append(_settings(strategy))
    return "\n".join(parts)


def _settings(strategy: type[Strategy[Settings]]) -> str:
    model = strategy.settings_type
    if not model.model_fields:
        return "It has no settings of its own.\n"
    defaults = model.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
    rows = [
        (f"`{name}`", default_of(defaults[name]), " ".join((info.description or "").split()))
        for name, info in fields_by_name(model).items()
    ]
    words = inspect.cleandoc(model.__dict__.get("__doc__") or "")
    opening = f"Its settings: {words[0].lower()}{words[1:]}\n\n" if words else ""
    return opening + _table(("setting", "default", "description"), rows)


def configuration() -> str:
    """The reference that the configuration makes of itself."""
    title, _, rest = reference_markdown(settings_by_name()).partition("\n")
    return f"{title}\n\n{_CONFIGURATION}{rest}"


def guards() -> str:
    """Every guard by the name that a rejection has."""
    rows = [(f"`{name}`", _words(guard), GUARD_SETTINGS.get(name, "")) for name, guard in GUARDS]
    plan_rows = [(f"`{name}`", words, setting) for name, (words, setting) in PLAN_GUARDS.items()]
    return "\n".join(
        [
            "# Guards\n",
            _GUARDS,
            "## What is never disturbed\n",
            _PODS_GUARDS,
            _table(("guard", "leaves alone", "changed by"), rows),
            "## What depends on the rest of the plan\n",
            _table(("guard", "meaning", "changed by"), plan_rows),
            _TIME,
        ]
    )


def predicates() -> str:
    """Every predicate, in the order in which a refusal is reported."""
    feasibility = Feasibility(WhatIf(Columns(ClusterSnapshot())))
    rows = [
        (
            f"`{predicate.name}`",
            NODE_RULES[predicate.name] if isinstance(predicate, NodeRule) else _words(type(predicate)),
            "ours" if isinstance(predicate, NodeRule) else "kube-scheduler's",
        )
        for predicate in feasibility.predicates
    ]
    return "\n".join(
        [
            "# Predicates\n",
            _PREDICATES,
            _table(("predicate", "what holds", "whose rule"), rows),
            _ALSO_EXPLAINED,
            _table(("name", "what holds"), [(f"`{name}`", words) for name, words in EXPLAINED.items()]),
            _INSISTING,
        ]
    )


def commands() -> str:
    """Every command and flag, as `--help` has them."""
    context = click.Context(root, info_name="rescheduler", **root.context_settings)
    return "\n".join(["# Commands\n", _COMMANDS, "## Exit codes\n", _exit_codes(), *_command(root, context)])


def metrics() -> str:
    """Every metric, as the registry has it."""
    rows = [
        (
            f"`{each.name}`",
            each.type,
            ", ".join(f"`{label}`" for label in each.labels),
            "the leader" if each.leader else "everybody",
            each.meaning,
        )
        for each in Metrics().described()
    ]
    table = _table(("name", "type", "labels", "shown by", "meaning"), rows)
    return "\n".join(["# Metrics\n", _METRICS, _SHOWN, table, _BOUNDED])


def events() -> str:
    """Every reason of an Event, by chapter."""
    parts = ["# Events\n", _EVENTS]
    for chapter, reasons in EVENTS.items():
        rows = [(f"`{reason}`", *words) for reason, words in reasons.items()]
        parts += [f"## {chapter}\n", _table(("reason", "type", "on", "when"), rows)]
    return "\n".join(parts)


def rights() -> str:
    """Every role with its rules, and the comments above them."""
    parts = ["# Rights\n", _RIGHTS]
    for role in yaml.compose_all(_RBAC, Loader=yaml.SafeLoader):
        found = {key.value: value for key, value in role.value}
        if not found["kind"].value.endswith("Role"):
            continue
        named = {key.value: value.value for key, value in found["metadata"].value}
        name = f"{found['kind'].value} `{named['name']}`"
        opening = _comment_above(role.start_mark.line) or "What it needs whatever is switched on."
        parts += [f"## {name}\n", f"{opening}\n", _rules_of(found["rules"])]
    return "\n".join(parts)


def _rules_of(rules: yaml.Node) -> str:
    """A comment holds for the rules below it, too; one that begins with Only is about a single rule."""
    rows: list[tuple[str, str, str]] = []
    general = ""
    for rule in rules.value:
        own = _comment_above(rule.start_mark.line)
        reason = own or ("the same" if rows and rows[-1][2] in (general, "the same") else general)
        general = general if own.startswith("Only") else own or general
        said = {key.value: [each.value for each in values.value] for key, values in rule.value}
        group = f" ({said['apiGroups'][0]})" if said["apiGroups"][0] else ""
        only = f", only {', '.join(f'`{each}`' for each in said['resourceNames'])}" if "resourceNames" in said else ""
        resources = ", ".join(f"`{each}`" for each in said["resources"])
        rows.append((f"{resources}{group}{only}", ", ".join(said["verbs"]), reason))
    return _table(("resources", "verbs", "what for"), rows)


def _comment_above(line: int) -> str:
    """The comment that ends right above a line of deploy/rbac.yaml."""
    lines, found = _RBAC.splitlines(), list[str]()
    while line > 0 and lines[line - 1].strip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].strip().lstrip("#").strip())
    return " ".join(found)


def _exit_codes() -> str:
    rows = re.findall(r"^ +(\d+) +(.+)$", EXIT_CODES, re.MULTILINE)
    return _table(("code", "meaning"), [(f"`{code}`", meaning) for code, meaning in rows])


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    if command is not root:
        yield f"## {context.command_path}\n"
        yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```\n"
        yield from _help(command)
        yield _options(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _command(found, click.Context(found, info_name=name, parent=context))


def _help(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if not paragraph.startswith(_VERBATIM):
            yield paragraph + "\n"
            continue
        lines, language = paragraph.removeprefix(_VERBATIM).strip("\n").splitlines(), "text"
        if lines[0].strip() == "Examples:":
            lines, language = lines[1:], "bash"
            yield "Examples:\n"
            lines = [re.sub(r"^(\S.*?\S) {2,}(\S.*)$", r"\1  # \2", line.strip()) for line in lines]
        yield f"```{language}\n" + "\n".join(lines) + "\n```\n"


def _options(command: click.Command, context: click.Context) -> str:
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    rows = [record for option in options if (record := option.get_help_record(context))]
    return _table(("flag", "meaning"), [(f"`{flags}`", " ".join(words.split())) for flags, words in rows])


def _words(thing: object) -> str:
    """A docstring in one line."""
    return " ".join(inspect.cleandoc(thing.__doc__ or "").split())


def _table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(re.sub(r" +\|$", " |", line) for line in lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "strategies.md": strategies,
    "configuration.md": configuration,
    "guards.md": guards,
    "predicates.md": predicates,
    "commands.md": commands,
    "metrics.md": metrics,
    "events.md": events,
    "rights.md": rights,
}


SHOWING = ("README.md", "README.zh-CN.md", "docs/plan-format.md", "docs/coming-over.md")
"""Pages that show what commands print, or tables that the code has."""

_CONSOLE = re.compile(r"(```console\n\$ (rescheduler [^\n]+)\n).*?(```\n)", re.DOTALL)
_TABLE_OF = re.compile(r"(<!-- made by docs/generate\.py: ([a-z-]+) -->\n\n).*?(<!-- end -->)", re.DOTALL)
_PRINTS = re.compile(r"(`(rescheduler [^`\n]+)` prints:\n\n```json\n).*?(```\n)", re.DOTALL)


def printed(command: str) -> tuple[str, str]:
    """What a command line prints on stderr and on stdout, run at the root of the checkout."""
    terminal = patch.object(Terminal, "of", return_value=Terminal(width=100))
    with chdir(ROOT), terminal, CliRunner().isolation() as (out, said, _):
        run(shlex.split(command)[1:])
    return said.getvalue().decode(), out.getvalue().decode()


def refreshed(text: str) -> str:
    """The page with the output of its commands as it is now."""
    text = _TABLE_OF.sub(lambda found: f"{found[1]}{_table(*TABLES[found[2]]())}\n{found[3]}", text)
    text = _CONSOLE.sub(lambda found: f"{found[1]}{''.join(printed(found[2]))}{found[3]}", text)
    return _PRINTS.sub(lambda found: f"{found[1]}{printed(found[2])[1]}{found[3]}", text)


def wanted() -> Iterator[tuple[str, str]]:
    """Each page by its path, and the text that it should have."""
    for name, make in PAGES.items():
        title, _, rest = make().partition("\n")
        yield f"docs/{name}", f"{title}\n\n{_MADE}{rest}"
    for path in SHOWING:
        yield path, refreshed((ROOT / path).read_text(encoding="utf-8"))


def differences() -> list[str]:
    """The lines of a diff from the pages as they are to the pages as they should be."""
    found: list[str] = []
    for path, text in wanted():
        there = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
        found += difflib.unified_diff(there.splitlines(), text.splitlines(), path, "generated", lineterm="")
    return found


def main() -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say what is out of step")
    if parser.parse_args().check:
        lines = differences()
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return 1 if lines else 0
    for path, text in wanted():
        (ROOT / path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
