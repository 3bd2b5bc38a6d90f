"""Modules that commands work with, imported when something of them is first used.

Importing numpy, pydantic and the cluster client takes longer than completing a flag or showing `plan --help` should.
So the commands' modules import from here whatever is not needed for their flags, as modules: `app.plan(…)`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rescheduler import app
    from rescheduler import config as configurations
    from rescheduler.app import approving, by_hand, following, maintaining, orders, pauses, presence
    from rescheduler.cli.output import entries as entries_output
    from rescheduler.cli.output import explanation as explanation_output
    from rescheduler.cli.output import maintenance as maintenance_output
    from rescheduler.config import loader
    from rescheduler.decode import dump
    from rescheduler.kube import approval as answering
    from rescheduler.planning import explain_format
else:

    class _Late(ModuleType):
        """Stands for the module of its name."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self.__name__), name)

    app = _Late("rescheduler.app")
    approving = _Late("rescheduler.app.approving")
    by_hand = _Late("rescheduler.app.by_hand")
    following = _Late("rescheduler.app.following")
    maintaining = _Late("rescheduler.app.maintaining")
    orders = _Late("rescheduler.app.orders")
    pauses = _Late("rescheduler.app.pauses")
    presence = _Late("rescheduler.app.presence")
    answering = _Late("rescheduler.kube.approval")
    configurations = _Late("rescheduler.config")
    dump = _Late("rescheduler.decode.dump")
    entries_output = _Late("rescheduler.cli.output.entries")
    explain_format = _Late("rescheduler.planning.explain_format")
    explanation_output = _Late("rescheduler.cli.output.explanation")
    loader = _Late("rescheduler.config.loader")
    maintenance_output = _Late("rescheduler.cli.output.maintenance")

__all__ = [
    "answering",
    "app",
    "approving",
    "by_hand",
    "configurations",
    "dump",
    "entries_output",
    "explain_format",
    "explanation_output",
    "following",
    "loader",
    "maintaining",
    "maintenance_output",
    "orders",
    "pauses",
    "presence",
]
