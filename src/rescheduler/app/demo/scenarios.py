"""The demo's scenarios by name. A new one is a module beside the others, and a line here."""

from __future__ import annotations

from rescheduler.app.demo.balance import Balance
from rescheduler.app.demo.chaos import Chaos
from rescheduler.app.demo.failing_node import FailingNode
from rescheduler.app.demo.hotspot import Hotspot
from rescheduler.app.demo.maintenance import Maintenance
from rescheduler.app.demo.scenario import Scenario

SCENARIOS: dict[str, type[Scenario]] = {each.name: each for each in (Balance, Hotspot, Maintenance, FailingNode, Chaos)}
