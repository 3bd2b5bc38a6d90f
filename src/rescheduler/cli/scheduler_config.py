"""`rescheduler scheduler-config`: the configuration that has a stock kube-scheduler ask our extender.

It needs no cluster: `app.scheduler_config` makes the document. Where one can be read, our own CA is taken from it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from rescheduler.cli import messages
from rescheduler.cli.options import STDIN, Access, access_options
from rescheduler.cli.output.documents import document_text
from rescheduler.cli.scheduler_options import Asked, Rest, asked_options, rest_options

if TYPE_CHECKING:
    from rescheduler.app.scheduler_trust import Trust


@click.command("scheduler-config")
@asked_options
@rest_options
@access_options
@messages.verbose_option
def scheduler_config(asked: Asked, rest: Rest, access: Access) -> None:
    """Print what has a stock kube-scheduler ask our extender.

    It is a KubeSchedulerConfiguration: give it to kube-scheduler as `--config`. With `extender.enabled` in its own
    configuration, the rescheduler then keeps pods away from nodes where their like failed, and leads replacements to
    their targets. If it does not answer, kube-scheduler goes on without it.

    No cluster is needed. If neither a CA nor `--insecure-skip-tls-verify` is given, our own CA is looked for in the
    Secret kube-rescheduler-webhook of the cluster that the kubeconfig leads to. A kube-scheduler on the host's network
    can't resolve the names of Services: give it the Service's address.

    \b
    Examples:
      rescheduler scheduler-config --url https://10.96.0.12:443       with our own CA, from the cluster
      rescheduler scheduler-config --ca-file ca.crt -o json           with another one
      rescheduler scheduler-config --merge scheduler.yaml > new.yaml  added to what is there
    """
    from rescheduler.app import scheduler_config as documents  # noqa: PLC0415 - help and completion do without it
    from rescheduler.cli.session import failures  # noqa: PLC0415 - the same

    asked.check()
    with failures():
        there = documents.read_config(rest.merge) if rest.merge is not None else None
        extender = documents.Extender(asked.prefix, _trust(asked, access), asked.weight, asked.timeout)
    scheduler = documents.Scheduler(rest.scheduler_names, rest.scheduler_kubeconfig or "", rest.leader_elect)
    if there is not None:
        messages.emit(document_text(documents.merged(there, extender, scheduler), rest.output))
        source = "<stdin>" if rest.merge == STDIN else rest.merge
        messages.warn(f"{source}: {doubt}" for doubt in documents.doubts(there, asked.prefix))
        return
    document = documents.made(extender, scheduler)
    names = [each["schedulerName"] for each in document["profiles"]]
    comment = _comment(extender.trust, names, scheduler.kubeconfig) if rest.output == "yaml" else ""
    messages.emit(comment + document_text(document, rest.output))


def _trust(asked: Asked, access: Access) -> Trust:
    """What the flags say, or else what the cluster does."""
    from rescheduler.app.scheduler_trust import Trust, authority_from_file, is_over  # noqa: PLC0415 - as above

    trust = Trust(b"", asked.scheduler_ca_file or "", asked.server_name or "", asked.insecure)
    if asked.prefix.startswith("http:"):
        messages.warn([f"{asked.prefix} has no TLS: whoever is on the way can answer in our name"])
        return trust
    if asked.insecure:
        messages.warn(
            ["--insecure-skip-tls-verify: whoever is on the way can answer in our name; use it for trying out"]
        )
    if asked.ca_file:
        trust = replace(trust, authority=authority_from_file(asked.ca_file))
        if is_over(trust.authority):
            messages.warn([f"--ca-file {asked.ca_file}: the CA has ended; kube-scheduler will not believe it"])
    return trust if trust.is_given else _own_trust(asked, access)


def _own_trust(asked: Asked, access: Access) -> Trust:
    from rescheduler.app.scheduler_trust import Trust, own_trust  # noqa: PLC0415 - as above
    from rescheduler.cli.session import live_of  # noqa: PLC0415 - the same
    from rescheduler.kube.errors import ClusterError  # noqa: PLC0415 - the same

    host = urlsplit(asked.prefix).hostname or ""
    try:
        found = asyncio.run(own_trust(live_of(access), asked.namespace, host))
    except ClusterError as error:
        if access.kubeconfig or access.context or access.as_user:
            raise
        cure = "give --ca-file; without it kube-scheduler trusts only the CAs of its system"
        messages.warn([f"our CA could not be had from a cluster: {str(error).splitlines()[0]}", cure])
        return Trust(server_name=asked.server_name or "")
    return replace(found, server_name=asked.server_name or found.server_name)


def _comment(trust: Trust, names: list[str], kubeconfig: str) -> str:
    """What a reader of the file should know."""
    lines = ["Has a stock kube-scheduler ask kube-rescheduler about every pod: kube-scheduler --config=THIS-FILE"]
    if "rescheduler-scheduler" in names:
        lines += [
            "The profile rescheduler-scheduler is without the plugin Rescheduler: a stock kube-scheduler lacks it, and",
            "does not start where it is enabled. Its pluginConfig may stand here; `rescheduler run --config` reads it.",
        ]
    if trust.ends is not None:
        lines.append(f"The CA in caData ends on {trust.ends:%Y-%m-%d}; print this again when it is renewed.")
    if not kubeconfig:
        lines += [
            "With --config, kube-scheduler ignores its flag --kubeconfig: unless its pod has a service account,",
            "it needs clientConnection.kubeconfig (rescheduler scheduler-config --scheduler-kubeconfig PATH).",
        ]
    return "".join(f"# {line}\n" for line in lines)
