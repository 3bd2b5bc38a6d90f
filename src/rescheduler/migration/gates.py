"""Taking a scheduling gate of ours off a pod, and with it the note that tells whose it is.

The steps of a move, rolling back, the janitor and every replica's ungater (`runtime`) do it by this one patch. It fails
if the pod is another one by now, or somebody else has changed its gates: then the pod is to be looked at anew.
"""

from __future__ import annotations

from rescheduler.migration.commands import Command, Json, Verb
from rescheduler.migration.observation import is_leaving, notes_of
from rescheduler.model import marks


def gates_of(pod: Json) -> list[str]:
    """What keeps the scheduler from a pod."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def ungating(pod: Json, gate: str, note: str = "") -> list[Command]:
    """What takes this gate off, and this annotation; nothing where neither is on it."""
    if is_leaving(pod):
        return []
    metadata, gates = pod["metadata"], gates_of(pod)
    changes: list[Json] = []
    if gate in gates:
        at = f"/spec/schedulingGates/{gates.index(gate)}"
        changes += [{"op": "test", "path": f"{at}/name", "value": gate}, {"op": "remove", "path": at}]
    if note and note in notes_of(pod):
        at = "/metadata/annotations/" + note.replace("~", "~0").replace("/", "~1")
        changes += [{"op": "test", "path": at, "value": notes_of(pod)[note]}, {"op": "remove", "path": at}]
    if not changes:
        return []
    body = [{"op": "test", "path": "/metadata/uid", "value": metadata["uid"]}, *changes]
    return [Command(Verb.PATCH, "Pod", metadata["namespace"], metadata["name"], body, why="take the gate off")]


def letting_through(pod: Json) -> list[Command]:
    """The same for the gate that the webhook put on a replacement."""
    return ungating(pod, marks.NOMINATE_GATE, marks.GATED)
