"""The scheduler extender: refuses nodes where pods like this one failed, and prefers the planned target.

kube-scheduler calls `filter` after its own rules and `prioritize` after its own scores, with nodes by name
(`nodeCacheCapable: true`) or whole. Refusals are unresolvable: preemption would not help. If the pod could go to no
other node, none is refused, and `report` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog
from msgspec import Raw

from rescheduler.admission.advisor import NO_ADVICE, PlacementAdvisor
from rescheduler.admission.server import RequestError
from rescheduler.admission.webhook import NotAPodError, read_new_pod
from rescheduler.decode.structs import ABSENT, present
from rescheduler.model.advice import NewPod, PlacementAdvice

_log = structlog.stdlib.get_logger(__name__)
_HIGHEST, _BETWEEN, _LOWEST = 10, 5, 0  # MaxExtenderPriority is 10
T = TypeVar("T")


class _Meta(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _Meta


class _Score(msgspec.Struct, rename="pascal", gc=False):
    """HostPriority."""

    host: str
    score: int


_args = msgspec.json.Decoder(dict[str, Raw])


class _ExtenderRequest(NamedTuple):
    new_pod: NewPod
    pod: Raw
    names: list[str]
    whole: dict[str, Raw] | None
    """The list of whole nodes, if that was sent."""
    items: list[Raw]


class Extender:
    """Answers kube-scheduler. Without advice every node passes, and all score the same."""

    def __init__(
        self,
        advisor: PlacementAdvisor,
        report: Callable[[NewPod, str], None],
        excluded: Callable[[], Collection[str]] = lambda: (),
    ) -> None:
        self._advisor = advisor
        self._report = report
        self._excluded = excluded

    def filter(self, body: bytes) -> bytes:
        """Answer ExtenderArgs with an ExtenderFilterResult."""
        asked = _read(body)
        refused = self._try(self._find_refused, asked)
        return _encode_result(asked, refused or {})

    def prioritize(self, body: bytes) -> bytes:
        """Answer ExtenderArgs with a HostPriorityList."""
        asked = _read(body)
        scores = self._try(self._compute_scores, asked) or {}
        return msgspec.json.encode([_Score(name, scores.get(name, _BETWEEN)) for name in asked.names])

    def _find_refused(self, asked: _ExtenderRequest) -> Mapping[str, str]:
        avoid = self._advice(asked.new_pod).avoid
        refused = {name: avoid[name] for name in asked.names if name in avoid} if avoid else {}
        if not all(name in refused for name in asked.names):
            return refused
        if self._advisor.leaves_any(avoid, asked.pod):
            # A nominated node is sent alone, and all others come next; or others have no room now, which preemption or
            # time may change. Going back to where it failed would only use up its retries.
            return refused
        self._report(asked.new_pod, _explain_refusals(refused))
        return {}

    def _compute_scores(self, asked: _ExtenderRequest) -> Mapping[str, int]:
        advice = self._advice(asked.new_pod)
        scores = dict.fromkeys(advice.avoid, _LOWEST)
        if advice.expected is not None:
            scores[advice.expected.source] = _LOWEST
            if advice.expected.target not in advice.avoid:
                scores[advice.expected.target] = _HIGHEST
        return scores

    def _advice(self, new_pod: NewPod) -> PlacementAdvice:
        return NO_ADVICE if new_pod.namespace in self._excluded() else self._advisor.advise(new_pod)

    def _try(self, decide: Callable[[_ExtenderRequest], T], asked: _ExtenderRequest) -> T | None:
        try:
            return decide(asked)
        except Exception:  # noqa: BLE001 - an internal error must never keep a pod from being placed
            new_pod = asked.new_pod
            _log.exception("extender failed: internal error", namespace=new_pod.namespace, pod=new_pod.name)
            return None


def _explain_refusals(refused: Mapping[str, str]) -> str:
    some = ", ".join(sorted(refused)[:5]) + (", …" if len(refused) > 5 else "")
    return f"pods like it failed on every node that it could go to ({some}): none of them is refused"


def _encode_result(asked: _ExtenderRequest, refused: Mapping[str, str]) -> bytes:
    result: dict[str, Any] = {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": refused,
        "Error": "",
    }
    if asked.whole is None:
        result["NodeNames"] = [name for name in asked.names if name not in refused] if refused else asked.names
    else:
        kept = [item for name, item in zip(asked.names, asked.items, strict=True) if name not in refused]
        result["Nodes"] = {**asked.whole, "items": kept}
    return msgspec.json.encode(result)


def _read(body: bytes) -> _ExtenderRequest:
    """Decode ExtenderArgs."""
    try:
        # Names are as kube-scheduler writes them, or small: Go would read them in any case.
        given = {name.lower(): part for name, part in _args.decode(body).items() if present(part)}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(400, f"the body is no ExtenderArgs: {error}") from None
    pod = given.get("pod", ABSENT)
    if not present(pod):
        raise RequestError(400, "ExtenderArgs without Pod: there is no pod to place")
    try:
        new_pod = read_new_pod(pod)
    except NotAPodError as error:
        raise RequestError(400, f"Pod: {error}") from None
    whole: dict[str, Raw] | None = None
    items: Sequence[Raw] = ()
    if "nodenames" in given:
        names = _part(given["nodenames"], list[str], "NodeNames")
    elif "nodes" in given:
        whole = _part(given["nodes"], dict[str, Raw], "Nodes")
        items = _part(whole["items"], list[Raw], "Nodes.items") if present(whole.get("items", ABSENT)) else ()
        names = [_part(item, _Node, f"Nodes.items[{at}]").metadata.name for at, item in enumerate(items)]
    else:
        raise RequestError(400, "ExtenderArgs with neither NodeNames nor Nodes: there is no node to choose from")
    if not names:
        raise RequestError(400, "ExtenderArgs with an empty list of nodes: there is no node to choose from")
    return _ExtenderRequest(new_pod, pod, names, whole, list(items))


def _part(raw: Raw, form: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(raw, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(400, f"{path}: {error}") from None
