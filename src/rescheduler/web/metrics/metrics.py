"""All metrics of one controller, behind the few methods that others call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from rescheduler.migration.commands import Command
from rescheduler.migration.observation import Refused
from rescheduler.model.migration import Migration
from rescheduler.model.plan import Plan
from rescheduler.recovery.case import OUTCOMES
from rescheduler.runtime.rereading import Reread
from rescheduler.web.metrics.catalogue import Catalogue, Description
from rescheduler.web.metrics.configuration import Configurations
from rescheduler.web.metrics.labels import Known
from rescheduler.web.metrics.moves import Moves
from rescheduler.web.metrics.nodes import Nodes, Utilisation
from rescheduler.web.metrics.outcomes import Outcomes
from rescheduler.web.metrics.plans import P, Phase, Plans, Result
from rescheduler.web.metrics.replica import Replica
from rescheduler.web.metrics.requests import Requests
from rescheduler.web.metrics.sources import Sources
from rescheduler.web.metrics.usage import Usage


class Metrics:
    """All that is counted, in a registry of its own."""

    def __init__(self) -> None:
        self._sources = Sources()
        self._catalogue = Catalogue(lambda: bool(self._sources.leading()), lambda: bool(self._sources.fresh()))
        self._replica = Replica(self._catalogue, lambda: self._sources)
        Nodes(self._catalogue, self._utilisation)
        Usage(self._catalogue, lambda: self._sources)
        self._configurations = Configurations(self._catalogue, lambda: self._sources)
        self._plans = Plans(self._catalogue)
        self._moves = Moves(self._catalogue)
        self._outcomes = Outcomes(self._catalogue)
        self._known_recoveries = Known(OUTCOMES)
        self._recoveries = self._catalogue.counter(
            "rescheduler_recoveries_total", "What was done about failed pods, and how it went on.", ("outcome",)
        )
        for outcome in OUTCOMES:
            self._recoveries.labels(outcome)
        self._requests = Requests(self._catalogue)

    def read(self, sources: Sources) -> None:
        """Ask these at every scrape from now on."""
        self._sources = sources

    def reread(self, result: Reread) -> None:
        """Count a configuration's file that has changed."""
        self._configurations.reread(result)

    def planned(self, plan: Plan) -> None:
        """Count a plan that is to be carried out."""
        self._plans.planned(plan)

    def phase(self, name: Phase) -> AbstractContextManager[None]:
        """Take the time of a part of a planning cycle: snapshot, plan or order."""
        return self._plans.phase(name)

    def timed(self, phase: Phase, work: Callable[P, Result]) -> Callable[P, Result]:
        """The same work, with its time taken as that part of a planning cycle."""
        return self._plans.timed(phase, work)

    def migrated(self, before: Migration, after: Migration) -> None:
        """Count what changed in a migration, as the logbook tells it."""
        self._moves.migrated(before, after)

    def refused(self, command: Command, refused: Refused) -> None:
        """Count a refused eviction; other refusals pass."""
        self._moves.refused(command, refused)

    def assessed(self, strategy: str, predicted: float | None, realised: float | None, verdict: str) -> None:
        """Count a finished move that was judged: the gains, where they are known, and whether it paid."""
        self._outcomes.assessed(strategy, predicted, realised, verdict)

    def recovered(self, outcome: str) -> None:
        """Count what became of a failed pod or its workload."""
        self._recoveries.labels(self._known_recoveries.value(outcome)).inc()

    def requests_to(self, server: str) -> Callable[[str, int | str, float | None], None]:
        """Whom a client of this API server reports to."""
        return self._requests.to(server)

    def answered(self, path: str, code: int, seconds: float) -> None:
        """Count a request to the webhook or the extender."""
        self._requests.answered(path, code, seconds)

    def webhook_in_force(self, *, yes: bool) -> None:
        """Tell whether the webhook is asked; of replicas that have not tried it nothing is told."""
        self._replica.webhook_in_force(yes=yes)

    def described(self) -> tuple[Description, ...]:
        """Every metric of ours, in the order in which they are shown."""
        return tuple(self._catalogue.described)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return self._catalogue.text()

    def _utilisation(self) -> Utilisation | None:
        standing = self._sources.standing
        return Utilisation.of_standing(standing()) if standing is not None else self._plans.utilisation
