"""Which rules hold for which kind. `api` asks; a new rules file is entered here."""

from __future__ import annotations

from functools import lru_cache

from kubemini.custom_rules import custom_rules
from kubemini.definition_rules import DefinitionRules
from kubemini.kinds import (
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
from kubemini.rules.autoscaler import AutoscalerRules
from kubemini.rules.base import Rules
from kubemini.rules.budget import BudgetRules
from kubemini.rules.cron_job import CronJobRules
from kubemini.rules.daemon_set import DaemonSetRules
from kubemini.rules.deployment import DeploymentRules, ReplicaSetRules
from kubemini.rules.job import JobRules
from kubemini.rules.namespace import NamespaceRules
from kubemini.rules.node import NodeRules
from kubemini.rules.pod import PodRules
from kubemini.rules.quota import QuotaRules
from kubemini.rules.secret import SecretRules
from kubemini.rules.service import ServiceRules
from kubemini.rules.small_kinds import (
    ConfigMapRules,
    EventRules,
    LeaseRules,
    PriorityClassRules,
)
from kubemini.rules.stateful_set import ControllerRevisionRules, StatefulSetRules
from kubemini.rules.storage import ClaimRules, CSINodeRules, StorageClassRules, VolumeRules
from kubemini.rules.typed import TypedRules, form_of
from kubemini.rules.webhook_configuration import WebhookConfigurationRules

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
