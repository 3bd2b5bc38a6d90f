"""Plans by a configuration as an operator writes it: from the text of a file to the moves."""

from __future__ import annotations

from rescheduler.app.planning import plan
from rescheduler.config.loader import load
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.strategies import settings_by_name

HEADER = "apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\nmaxReschedulePods: unlimited\n"


def policy(text: str) -> Policy:
    """What this configuration means; without a limit on moves unless it says so."""
    header = HEADER if "maxReschedulePods" not in text else HEADER.replace("maxReschedulePods: unlimited\n", "")
    return load(header + text, "config.yaml", settings_by_name()).policy()


def plan_by(snapshot: ClusterSnapshot, text: str) -> Plan:
    """The plan that the product makes of the snapshot by this configuration."""
    return plan(snapshot, policy(text))
