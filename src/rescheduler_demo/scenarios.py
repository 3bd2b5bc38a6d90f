"""The demo's scenarios by name. A new one is a module beside the others, and a line here."""

from __future__ import annotations

from rescheduler_demo.balance import Balance
from rescheduler_demo.chaos import Chaos
from rescheduler_demo.failing_node import FailingNode
from rescheduler_demo.hotspot import Hotspot
from rescheduler_demo.maintenance import Maintenance
from rescheduler_demo.scenario import Scenario

SCENARIOS: dict[str, type[Scenario]] = {each.name: each for each in (Balance, Hotspot, Maintenance, FailingNode, Chaos)}
