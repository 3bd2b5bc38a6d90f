"""Which rules hold for which kind. `api` asks; a new rules file is entered here."""

from __future__ import annotations

from functools import lru_cache

from rescheduler.embedded.custom_rules import custom_rules
from rescheduler.embedded.definition_rules import DefinitionRules
from rescheduler.embedded.kinds import (
    AUTOSCALER,
    BUDGET,
    CLAIM,
    CONTROLLER_REVISION,
    CORE_EVENT,
    CRON_JOB,
    CSI_NODE,
    DAEMON_SET,
    DEFINITION,
    DEPLOYMENT,
    EVENT,
    JOB,
    LEASE,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    QUOTA,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from rescheduler.embedded.rules.autoscaler import AutoscalerRules
from rescheduler.embedded.rules.base import Rules
from rescheduler.embedded.rules.budget import BudgetRules
from rescheduler.embedded.rules.cron_job import CronJobRules
from rescheduler.embedded.rules.daemon_set import DaemonSetRules
from rescheduler.embedded.rules.deployment import DeploymentRules, ReplicaSetRules
from rescheduler.embedded.rules.job import JobRules
from rescheduler.embedded.rules.namespace import NamespaceRules
from rescheduler.embedded.rules.node import NodeRules
from rescheduler.embedded.rules.pod import PodRules
from rescheduler.embedded.rules.quota import QuotaRules
from rescheduler.embedded.rules.secret import SecretRules
from rescheduler.embedded.rules.service import ServiceRules
from rescheduler.embedded.rules.small_kinds import (
    ConfigMapRules,
    EventRules,
    LeaseRules,
    PriorityClassRules,
)
from rescheduler.embedded.rules.stateful_set import ControllerRevisionRules, StatefulSetRules
from rescheduler.embedded.rules.storage import ClaimRules, CSINodeRules, StorageClassRules, VolumeRules
from rescheduler.embedded.rules.typed import TypedRules, form_of
from rescheduler.embedded.rules.webhook_configuration import WebhookConfigurationRules

_RULES: dict[str, type[Rules]] = {
    POD.resource: PodRules,
    NODE.resource: NodeRules,
    NAMESPACE.resource: NamespaceRules,
    CLAIM.resource: ClaimRules,
    VOLUME.resource: VolumeRules,
    SERVICE.resource: ServiceRules,
    QUOTA.resource: QuotaRules,
    CORE_EVENT.resource: EventRules,
    EVENT.resource: EventRules,
    "configmaps": ConfigMapRules,
    "secrets": SecretRules,
    DEPLOYMENT.resource: DeploymentRules,
    REPLICA_SET.resource: ReplicaSetRules,
    STATEFUL_SET.resource: StatefulSetRules,
    DAEMON_SET.resource: DaemonSetRules,
    CONTROLLER_REVISION.resource: ControllerRevisionRules,
    JOB.resource: JobRules,
    CRON_JOB.resource: CronJobRules,
    BUDGET.resource: BudgetRules,
    AUTOSCALER.resource: AutoscalerRules,
    LEASE.resource: LeaseRules,
    STORAGE_CLASS.resource: StorageClassRules,
    CSI_NODE.resource: CSINodeRules,
    PRIORITY_CLASS.resource: PriorityClassRules,
    MUTATING_WEBHOOKS.resource: WebhookConfigurationRules,
    DEFINITION.resource: DefinitionRules,
}


def rules_of(kind: Kind) -> Rules:
    """The rules for a kind; those of a custom one are in its definition, which may change."""
    return custom_rules(kind) if kind.custom else _built_in(kind)


@lru_cache(maxsize=256)
def _built_in(kind: Kind) -> Rules:
    found = _RULES.get(kind.resource)
    if found is None:
        found = TypedRules if form_of(kind) else Rules
    return found(kind)
