"""PodMigration objects as they are written: msgspec checks their types and names the path of what is wrong.

`journal_format` makes migrations of them. `definition` has the same fields as a schema for the API server, which drops
nulls and unknown fields, so that none arrive here.
"""

from __future__ import annotations

import msgspec

from rescheduler.model.migration import OutcomeVerdict, Phase
from rescheduler.model.plan import Method
from rescheduler.model.strategy_traits import MANUAL

AUTO = "auto"
"""The method of those who leave the choice to us."""


class Part(msgspec.Struct, rename="camel"):
    """A part of a PodMigration as it is written; fields that we do not know are left alone."""


class Pod(Part):
    """Which pod."""

    name: str
    uid: str = ""


class Proposal(Part):
    """Migrations that stand or fall together."""

    name: str
    members: int = 1


class Spec(Part):
    """The order."""

    pod: Pod
    target: str = ""
    method: str = AUTO
    strategy: str = MANUAL
    reason: str = ""
    proposal: Proposal | None = None
    paused: bool = False
    timeout: str = ""
    approval_required: bool = False
    windowed: bool = False
    plan: str = ""
    expected_gain: float | None = None


class Reference(Part):
    """An object in the same namespace."""

    name: str
    kind: str = ""
    uid: str = ""


class Condition(Part):
    """Of a condition, what the next one must know."""

    type: str
    status: str
    last_transition_time: str = ""


class Outcome(Part):
    """What it came to."""

    verdict: OutcomeVerdict
    gain: float | None = None
    assessed_time: str = ""


class Status(Part):
    """The progress."""

    phase: Phase = Phase.PENDING
    step: str = ""
    method: str = ""
    pod_uid: str = msgspec.field(name="podUID", default="")
    source: str = ""
    target: str = ""
    controller: Reference | None = None
    workload: Reference | None = None
    replacement: Reference | None = None
    bystanders: tuple[str, ...] = ()
    attempts: int = 0
    tried_methods: tuple[Method, ...] = ()
    message: str = ""
    start_time: str = ""
    step_time: str = ""
    completion_time: str = ""
    retry_time: str = ""
    remark: str = ""
    outcome: Outcome | None = None
    conditions: tuple[Condition, ...] = ()


class Meta(Part):
    """Which object, in which state."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    generation: int = 0
    annotations: dict[str, str] = {}


class PodMigration(Part):
    """The whole object."""

    metadata: Meta
    spec: Spec
    status: Status = msgspec.field(default_factory=Status)
