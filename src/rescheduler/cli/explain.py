"""`rescheduler explain`: explains why one pod is moved or not, node by node.

The same flags as `plan` give the same plan; `planning.explain` explains it, and `output` formats the explanation.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.common import open_session, report_failures
from rescheduler.cli.lazy import app, explanation_output, planning_explain
from rescheduler.cli.messages import nearest_names
from rescheduler.cli.options import InputOptions, PolicyFlags, input_options, now_option, policy_options
from rescheduler.cli.output.documents import FORMATS, document_text
from rescheduler.cli.output.terminal import Terminal

if TYPE_CHECKING:
    from rescheduler.model.snapshot import ClusterSnapshot

_POD_KINDS = ("pod", "pods", "po")


@click.command("explain", epilog=messages.EXIT_CODES)
@click.argument("pod", metavar="NAMESPACE/POD")
@input_options
@policy_options
@now_option
@click.option("-n", "--namespace", metavar="NAMESPACE", help="The pod's namespace, if POD does not include it.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", *FORMATS]),
    default="table",
    show_default=True,
    help="wide lists every node; json and yaml have everything.",
)
@messages.verbose_option
def explain(pod: str, inputs: InputOptions, wanted: PolicyFlags, **flags: str | float | None) -> None:
    """Explain why a pod is moved or not, node by node.

    POD may be NAMESPACE/POD, or POD or pod/POD with -n.

    \b
    Examples:
      rescheduler explain shop/cart-6d5f9c-x2x9z
      rescheduler explain pod/cart-6d5f9c-x2x9z -n shop -f cluster.json -o wide
      rescheduler plan -o name | xargs -r -L1 rescheduler explain
    """
    namespace, output, now = flags["namespace"], str(flags["output"]), flags["now"]
    session = open_session(inputs, wanted, now if isinstance(now, float) else None)
    key = _find_pod(pod, str(namespace) if namespace else None, session.snapshot)
    with report_failures():
        explained, plan = app.explain_pod(session.snapshot, session.policy, key)
    messages.warn(plan.warnings)
    if output in FORMATS:
        messages.emit(document_text(planning_explain.explanation_document(explained), output).encode())
        return
    lines = explanation_output.explanation_lines(explained, plan, Terminal.of(sys.stdout), wide=output == "wide")
    messages.emit("".join(f"{line}\n" for line in lines))


def _find_pod(text: str, namespace: str | None, snapshot: ClusterSnapshot) -> tuple[str, str]:
    """Find the pod: `ns/pod`, `ns/pod/name`, or `pod` and `pod/name` with -n or in namespace default."""
    *before, name = text.split("/")
    known = {(pod.namespace, pod.name) for pod in snapshot.pods}
    if len(before) > 2 or not name or not all(before) or (len(before) == 2 and before[1] not in _POD_KINDS):
        raise click.UsageError(f"{text!r} is not NAMESPACE/POD")
    named = [part for part in before if part not in _POD_KINDS]
    if not named and before and namespace is None and (before[0], name) in known:
        named = before  # a namespace that is called pod
    if named and namespace is not None and named[0] != namespace:
        raise click.UsageError(f"{text} names namespace {named[0]}, and -n names {namespace}: give one of the two")
    inside = (named[0] if named else namespace) or ""
    if inside:
        found = [(inside, name)] if (inside, name) in known else []
    else:
        found = sorted(key for key in known if key[1] == name)
        found = [("default", name)] if ("default", name) in found else found
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(f"{key[0]}/{key[1]}" for key in found[:5])
        raise click.UsageError(f"pods of the name {name} are in several namespaces: {some}; say which")
    raise messages.CommandError(_not_found(inside, name, sorted(known)))


def _not_found(namespace: str, name: str, known: list[tuple[str, str]]) -> str:
    title = f"{namespace}/{name}" if namespace else name
    elsewhere = [f"{key[0]}/{key[1]}" for key in known if key[1] == name]
    inside = [key[1] for key in known if key[0] == namespace]
    if elsewhere:
        near = elsewhere[:3]
    elif inside or not namespace:
        near = [
            f"{namespace}/{found}" if namespace else found
            for found in nearest_names(name, inside or [key[1] for key in known])
        ]
    else:
        spaces = nearest_names(namespace, sorted({key[0] for key in known}))
        hint = f"; did you mean {' or '.join(spaces)}?" if spaces else ""
        return f"there is no pod {title}: the input has no pod in namespace {namespace}{hint}"
    return f"there is no pod {title} in the input" + (f"; did you mean {' or '.join(near)}?" if near else "")
