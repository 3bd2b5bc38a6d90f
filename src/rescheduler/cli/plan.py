"""`rescheduler plan`: shows which pods should move where, and why. Nothing is carried out.

`options` parses the flags, `app` makes the plan, and `output` formats it. The output may be limited to a namespace or
to labels; the plan is always that of the whole cluster.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import click
from msgspec import structs

from rescheduler.cli import messages
from rescheduler.cli.common import Session, open_session, report_failures
from rescheduler.cli.lazy import app
from rescheduler.cli.options import (
    InputOptions,
    PolicyFlags,
    group_options,
    input_options,
    now_option,
    option,
    policy_options,
)
from rescheduler.cli.output.documents import FORMATS, document_text
from rescheduler.cli.output.plan import PlanLayout, plan_lines
from rescheduler.cli.output.terminal import Terminal, plain
from rescheduler.model.plan import Plan, plan_document
from rescheduler.model.selector import Selector, SelectorError, parse_selector


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Which part of the plan is shown, and how."""

    namespace: str | None = option("-n", "--namespace", metavar="NAMESPACE", help="Show only this namespace's pods.")
    all_namespaces: bool = option("-A", "--all-namespaces", is_flag=True, help="Show all namespaces (default).")
    selector: str | None = option(
        "-l", "--selector", metavar="SELECTOR", help="Show only pods with these labels (a=b,c in (d,e))."
    )
    output: str = option(
        "-o",
        "--output",
        type=click.Choice(["table", "wide", *FORMATS, "name"]),
        default="table",
        show_default=True,
        help="table; wide has more columns; json and yaml are stable (docs/plan-format.md); "
        "name prints `pod/NAME -n NAMESPACE`, for `xargs -L1 kubectl describe`, or `pod/NAME` with -n.",
    )
    no_headers: bool = option("--no-headers", is_flag=True, help="Omit the headers of tables.")
    exit_code: bool = option(
        "--exit-code", is_flag=True, help="Exit with 3 if there is something to move, shown or not."
    )

    def only(self) -> str | None:
        """Return the namespace to show; None for all. -A wins over -n, as in kubectl."""
        return None if self.all_namespaces else self.namespace

    def labels(self) -> Selector | None:
        """Return the selector for the pods to show."""
        try:
            return parse_selector(self.selector) if self.selector else None
        except SelectorError as error:
            raise click.UsageError(f"-l: {error}") from None


@click.command("plan", epilog=messages.EXIT_CODES)
@input_options
@policy_options
@now_option
@group_options("options", PlanOptions)
@messages.verbose_option
def plan(inputs: InputOptions, wanted: PolicyFlags, now: float | None, options: PlanOptions) -> None:
    """Show which pods should move where, and why.

    Reads files or the live cluster, and changes nothing. The same input and configuration give the same plan.

    \b
    Examples:
      rescheduler plan                                   the live cluster
      rescheduler plan -f cluster.json -o wide           a dump
      kubectl get nodes,pods -A -o json | rescheduler plan -f -
      rescheduler plan --strategy NodeMaintenance --exit-code
    """
    labels = options.labels()
    session = open_session(inputs, wanted, now)
    started = time.monotonic()
    with report_failures():
        whole = app.plan(session.snapshot, session.policy)
    took = time.monotonic() - started
    messages.detail(f"planned with {', '.join(session.policy.enabled_strategies) or 'no strategy'} in {took:.1f} s")
    messages.warn(whole.warnings)
    shown = _narrowed(whole, options, labels, session)
    if options.output in FORMATS:
        messages.emit(document_text(plan_document(shown), options.output).encode())
    elif options.output == "name":
        messages.emit("".join(f"{name}\n" for name in _names(shown, options)))
    else:
        layout = PlanLayout(wide=options.output == "wide", headers=not options.no_headers)
        messages.emit("".join(f"{line}\n" for line in plan_lines(shown, whole, layout, Terminal.of(sys.stdout))))
    if options.exit_code and whole.moves:
        raise click.exceptions.Exit(messages.TO_MOVE)


def _narrowed(whole: Plan, options: PlanOptions, labels: Selector | None, session: Session) -> Plan:
    """The part of the plan that is to be shown; that it is a part is said on stderr, and in the document itself."""
    namespace = options.only()
    if namespace is None and labels is None:
        return whole
    wanted = {
        (pod.namespace, pod.name)
        for pod in session.snapshot.pods
        if namespace in (None, pod.namespace) and (labels is None or labels.matches(pod.labels))
    }
    moves = tuple(move for move in whole.moves if (move.namespace, move.pod) in wanted)
    rejections = tuple(found for found in whole.rejections if (found.namespace, found.pod) in wanted)
    by = " and ".join([f"-n {namespace}"] * (namespace is not None) + [f"-l {options.selector}"] * (labels is not None))
    note = (
        f"{by} shows {len(moves)} of {len(whole.moves)} moves and {len(rejections)} of {len(whole.rejections)} "
        "rejections; the plan and its effect are the whole cluster's"
    )
    messages.note(note)
    return structs.replace(whole, moves=moves, rejections=rejections, warnings=(*whole.warnings, note))


def _names(shown: Plan, options: PlanOptions) -> list[str]:
    """A line for each pod that moves: arguments that kubectl and `rescheduler explain` take."""
    if options.only() is not None:
        return [plain(f"pod/{move.pod}") for move in shown.moves]
    return [plain(f"pod/{move.pod} -n {move.namespace}") for move in shown.moves]
