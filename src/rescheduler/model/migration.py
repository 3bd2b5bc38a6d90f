"""PodMigration: one pod being moved, as the cluster stores it and as every part of the controller reads it.

The CRD's schema is generated from these structs (`migration.crd`), and `kube.migrations` decodes and writes objects
through them, so a new field is one line here. Descriptions are what `kubectl explain pmig` shows.
All values are immutable: a migration advances by replacing its status.
"""

from __future__ import annotations

import hashlib
from enum import Enum, StrEnum
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints

import msgspec

from rescheduler.model import labels
from rescheduler.model.json import ObjectKey
from rescheduler.model.plan import Method
from rescheduler.model.strategy_traits import MANUAL
from rescheduler.model.time import Duration, Timestamp, format_time

REPLANNED = "it is given up, and planned again then"
"""The end of the message of a migration that is dropped because its time window opens too late."""


class Phase(StrEnum):
    """The phase of a migration."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"


class RequestedMethod(StrEnum):
    """The method that a spec asks for."""

    AUTO = "auto"
    HANDOFF = "handoff"
    EVICT = "evict"
    COPY = "copy"
    REMOVE = "remove"


class OutcomeVerdict(StrEnum):
    """Whether a move was worth it."""

    PAID = "Paid"
    NOT_PAID = "NotPaid"
    CAME_BACK = "CameBack"
    UNKNOWN = "Unknown"


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


def _about(description: str, **schema: Any) -> msgspec.Meta:
    """The description of a field, and keywords of its JSON schema that the API server checks."""
    return msgspec.Meta(description=description, extra_json_schema=schema)


_COUNT = msgspec.Meta(extra_json_schema={"minimum": 0})
_GENERATION = msgspec.Meta(extra_json_schema={"format": "int64", "minimum": 0})
_ATOMIC = msgspec.Meta(extra_json_schema={"x-kubernetes-list-type": "atomic"})
_LABEL: dict[str, Any] = {"minLength": 1, "maxLength": 63, "pattern": r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"}
"""The migration's name and its strategy are also label values."""
# As Go writes durations, and as `model.time` reads them; none of these is longer than it can count.
_DURATION = r"^([0-9]{1,6}(\.[0-9]{1,9})?h)?([0-9]{1,6}(\.[0-9]{1,9})?(m|s|ms|us|µs|ns))*$"
_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


class _Struct(msgspec.Struct, frozen=True, rename="camel"):
    """Base: camelCase in the cluster. Unknown fields are ignored."""

    def __post_init__(self) -> None:
        # Decoded from text, a time has a type of its own; inside the program it is a plain float.
        for name in _times_of(type(self)):
            value = getattr(self, name)
            if value is not None:
                msgspec.structs.force_setattr(self, name, float(value))


@cache
def _times_of(struct: type[msgspec.Struct]) -> dict[str, type]:
    """The fields of a struct that are stored as text of a time or duration."""
    hints = {name: {hint, *get_args(hint)} for name, hint in get_type_hints(struct).items()}
    return {name: kind for name, kinds in hints.items() for kind in (Timestamp, Duration) if kind in kinds}


def encode_value(value: object) -> Any:
    """A struct or a field of one as the JSON values that are stored."""
    if isinstance(value, tuple):
        return [encode_value(each) for each in value]
    if not isinstance(value, msgspec.Struct):
        return value.value if isinstance(value, Enum) else value
    times, found = _times_of(type(value)), {}
    for name, stored_name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        field = getattr(value, name)
        is_time = name in times and field is not None
        found[stored_name] = format_time(times[name], field) if is_time else encode_value(field)
    return found


class PodReference(_Struct, frozen=True):
    """The pod to move or remove."""

    name: Annotated[str, _about("Its name.", minLength=1, maxLength=253)]
    uid: Annotated[
        str, _about("Its UID; without it, whichever pod has the name when the migration begins.", maxLength=128)
    ] = ""


class ProposalReference(_Struct, frozen=True):
    """The group of migrations that stand or fall together."""

    name: Annotated[str, _about("The name of the group.", minLength=1, maxLength=253)]
    members: Annotated[int, _about("The number of migrations in it.", minimum=1)]


class MigrationSpec(_Struct, frozen=True):
    """The requested move."""

    pod: Annotated[PodReference, _about("The pod to move or remove, in the migration's namespace.")]
    target: Annotated[str, _about("The node to move it to; without it, the best one is chosen.", maxLength=253)] = ""
    method: Annotated[
        RequestedMethod,
        _about(
            "How it is moved: handoff starts the replacement first and lets the pod's ReplicaSet adopt it, evict "
            "evicts the pod and waits for its replacement, copy starts a copy first and then evicts the pod. Auto "
            "takes the gentlest of these that fits. Remove deletes a pod that has ended, and takes no target."
        ),
    ] = RequestedMethod.AUTO
    strategy: Annotated[str, _about("The strategy that proposed the move, or Manual.", **_LABEL)] = MANUAL
    reason: Annotated[str, _about("Why it is moved, for people.")] = ""
    paused: Annotated[bool, _about("Do not start yet; a move that has started continues.")] = False
    timeout: Annotated[
        Duration | None,
        _about(
            "A move that takes longer than this, such as 10m, is rolled back. Without it, the controller's "
            "configuration applies.",
            pattern=_DURATION,
            minLength=2,
            maxLength=64,
        ),
    ] = None
    approval_required: Annotated[
        bool,
        _about(
            "Do not start before it is approved: by rescheduler approve, or by the annotation "
            "rescheduler.io/approved with the name of the person who approves."
        ),
    ] = False
    windowed: Annotated[
        bool,
        _about(
            "Set by the controller: it waits for the time windows of the configuration and counts towards "
            "when.movesPerHour and movesPerHourPerNamespace, because it is optional: no person asked for it."
        ),
    ] = False
    plan: Annotated[str, _about("Set by the controller: the plan that it is a part of; also a label.", **_LABEL)] = ""
    expected_gain: Annotated[
        float | None,
        _about("Set by the controller: by how many percentage points the busier of the two nodes becomes less busy."),
    ] = None
    proposal: Annotated[
        ProposalReference | None, _about("Set by the controller: migrations that stand or fall together.")
    ] = None

    @property
    def fixed_method(self) -> Method | None:
        """The method asked for; None leaves the choice to the controller."""
        return None if self.method is RequestedMethod.AUTO else Method(self.method)

    @property
    def by_hand(self) -> bool:
        """Whether a person ordered it, and no strategy."""
        return self.strategy == MANUAL

    @property
    def members(self) -> int:
        """The number of migrations in its proposal."""
        return self.proposal.members if self.proposal is not None else 1

    @property
    def proposal_name(self) -> str:
        """The name of its proposal; empty for a migration on its own."""
        return self.proposal.name if self.proposal is not None else ""


class ObjectReference(_Struct, frozen=True):
    """An object in the migration's namespace."""

    kind: Annotated[str, _about("Its kind.", required=False)]
    name: Annotated[str, _about("Its name.")]
    uid: Annotated[str, _about("Its UID.")] = ""

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class MoveOutcome(_Struct, frozen=True):
    """The outcome of a completed move, assessed some time later."""

    verdict: Annotated[OutcomeVerdict, _about("Whether it was worth it.")]
    gain: Annotated[float | None, _about("The gain that came true, in percentage points.")] = None
    assessed_time: Annotated[Timestamp | None, _about("When this was assessed.")] = None


class MigrationCondition(_Struct, frozen=True):
    """A condition of the migration, and since when it holds."""

    type: Annotated[str, _about("Progressing, Completed or Failed.", maxLength=316)]
    status: Annotated[ConditionStatus, _about("True, False or Unknown.")]
    last_transition_time: Annotated[Timestamp, _about("When the status last changed.")]
    reason: Annotated[str, _about("Why, in one word.", minLength=1, maxLength=1024, pattern=_REASON)]
    message: Annotated[str, _about("Why, for people.", maxLength=32768)]
    observed_generation: Annotated[int, _GENERATION, _about("The generation of the spec that this is about.")] = 0


class MigrationStatus(_Struct, frozen=True):
    """The progress of the move; the controller writes it."""

    phase: Annotated[Phase, _about("The phase of the migration.")] = Phase.PENDING
    step: Annotated[str, _about("The current step; it may not have been taken yet.")] = ""
    method: Annotated[Method | None, _about("The method that was chosen.")] = None
    pod_uid: Annotated[str, _about("The UID of the pod that is moved.")] = msgspec.field(name="podUID", default="")
    source: Annotated[str, _about("The node that it is moved from.")] = ""
    target: Annotated[str, _about("The node that it is moved to.")] = ""
    controller: Annotated[ObjectReference | None, _about("The pod's controller. It is in the same namespace.")] = None
    workload: Annotated[
        ObjectReference | None,
        _about("The object that records the move: the Deployment, or the controller. It is in the same namespace."),
    ] = None
    replacement: Annotated[
        ObjectReference | None, _about("The pod that takes its place. It is in the same namespace.")
    ] = None
    bystanders: Annotated[
        tuple[str, ...], _ATOMIC, _about("UIDs of pods that existed before, so none of them is the replacement.")
    ] = ()
    attempts: Annotated[int, _COUNT, _about("How often it was started.")] = 0
    tried_methods: Annotated[
        tuple[Annotated[Method, _about("One of them.")], ...],
        _ATOMIC,
        _about("Methods that did not work."),
    ] = ()
    message: Annotated[str, _about("What it waits for, or what went wrong.")] = ""
    remark: Annotated[str, _about("What was left out, such as reserving room, and why.")] = ""
    start_time: Annotated[Timestamp | None, _about("When it was last started.")] = None
    step_time: Annotated[Timestamp | None, _about("When its step was started.")] = None
    eviction_time: Annotated[Timestamp | None, _about("When the controller saw that its pod was evicted.")] = None
    completion_time: Annotated[Timestamp | None, _about("When it ended.")] = None
    retry_time: Annotated[Timestamp | None, _about("When it is tried again.")] = None
    outcome: Annotated[MoveOutcome | None, _about("Whether it was worth it, assessed some time later.")] = None
    observed_generation: Annotated[
        int, _GENERATION, _about("The generation of the spec that this status is about.")
    ] = 0
    conditions: Annotated[
        tuple[MigrationCondition, ...],
        _about(
            "Progressing while it is carried out, Completed once the pod has been moved, Failed once it "
            "was given up and everything was undone.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do."""
        return self.phase in (Phase.COMPLETED, Phase.FAILED)


class ObjectMeta(_Struct, frozen=True):
    """The object and its version. The name is the migration-id that marks everything that belongs to the move."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Timestamp | None = None
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PodMigration(_Struct, frozen=True):
    """One pod being moved to another node."""

    metadata: ObjectMeta
    spec: MigrationSpec
    status: MigrationStatus = MigrationStatus()

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.metadata.namespace

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def uid(self) -> str:
        """Its own UID, not the pod's."""
        return self.metadata.uid

    @property
    def key(self) -> ObjectKey:
        """Its namespace and name."""
        return (self.metadata.namespace, self.metadata.name)

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def approved_by(self) -> str:
        """The approver, if there is one."""
        return self._read_person(labels.APPROVED)

    @property
    def rejected_by(self) -> str:
        """The person who rejected it while it waited for approval; it is then given up."""
        return self._read_person(labels.REJECTED)

    @property
    def awaits_approval(self) -> bool:
        """Whether it waits for its own approval."""
        return self.status.phase is Phase.PENDING and self.spec.approval_required and not self.approved_by

    def _read_person(self, annotation: str) -> str:
        """The person named in an annotation; people may write just "true", and take it back with "false"."""
        said = self.metadata.annotations.get(annotation, "").strip()
        return "" if said.lower() in ("false", "no") else said


_LONGEST_NAME = 63  # of a label's value
_DIGITS = 8
_LETTERS = "bcdfghjkmnpqrstvwxz2456789"  # no vowels, so that no words come of them, and none that look like digits
_PLAN_LENGTH = 6


def migration_name(pod: str, *salt: str) -> str:
    """`<pod>-<8 hex digits>`: the pod's name, cut to fit, and a hash of it and of the salt (its UID, the occasion).

    The same move on the same occasion has the same name, so it is never ordered twice. The name is also a label value.
    """
    digest = _digest(pod, *salt).hex()[:_DIGITS]
    # A part of a DNS name ends with a letter or digit: no dash or dot may stay at the cut.
    return f"{pod[: _LONGEST_NAME - _DIGITS - 1].rstrip('-.')}-{digest}"


def plan_name(*parts: str) -> str:
    """Six letters and digits for a plan, short enough to type; the same parts give the same name."""
    number = int.from_bytes(_digest(*parts))
    letters = []
    for _ in range(_PLAN_LENGTH):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)


def _digest(*texts: str) -> bytes:
    # The lengths keep ("a", "bc") and ("ab", "c") apart.
    return hashlib.sha256("".join(f"{len(text)}:{text}" for text in texts).encode()).digest()
