"""Imports the modules that commands work with on first use.

Importing numpy, pydantic and the cluster client takes longer than completing a flag or showing `plan --help` should.
So the commands import from here what their flags do not need, as modules: `app.plan(…)`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rescheduler.app import follow as app_follow
    from rescheduler.app import holds as app_holds
    from rescheduler.app import maintenance as app_maintenance
    from rescheduler.app import orders as app_orders
    from rescheduler.app import planning as app
    from rescheduler.app import scheduler_config as app_scheduler_config
    from rescheduler.config import errors as config_errors
    from rescheduler.config import loader as config_loader
    from rescheduler.decode import dump
    from rescheduler.kube import errors as kube_errors
    from rescheduler.kube import migrations as kube_migrations
    from rescheduler.planning import explain as planning_explain
else:

    class _Lazy(ModuleType):
        """Placeholder for the module of its name."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self.__name__), name)

    app = _Lazy("rescheduler.app.planning")
    app_follow = _Lazy("rescheduler.app.follow")
    app_holds = _Lazy("rescheduler.app.holds")
    app_maintenance = _Lazy("rescheduler.app.maintenance")
    app_orders = _Lazy("rescheduler.app.orders")
    app_scheduler_config = _Lazy("rescheduler.app.scheduler_config")
    config_loader = _Lazy("rescheduler.config.loader")
    config_errors = _Lazy("rescheduler.config.errors")
    dump = _Lazy("rescheduler.decode.dump")
    kube_migrations = _Lazy("rescheduler.kube.migrations")
    kube_errors = _Lazy("rescheduler.kube.errors")
    planning_explain = _Lazy("rescheduler.planning.explain")

__all__ = [
    "app",
    "app_follow",
    "app_holds",
    "app_maintenance",
    "app_orders",
    "app_scheduler_config",
    "config_errors",
    "config_loader",
    "dump",
    "kube_errors",
    "kube_migrations",
    "planning_explain",
]
