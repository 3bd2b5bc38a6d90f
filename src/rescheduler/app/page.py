"""The page, put together: what `web` shows, from the parts of a running controller.

`app.controller` makes it before anything is watched, so that it hears of everything, hands its `api` to the server, and
each plan of the leader's cycle to `plans`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rescheduler.app.planning import explained, planned
from rescheduler.kube.lease import Election
from rescheduler.kube.pause_state import Pause
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.explain_format import explanation_document
from rescheduler.planning.guards import Context
from rescheduler.planning.methods import Methods
from rescheduler.planning.workloads import Workloads
from rescheduler.runtime.cycle import settled
from rescheduler.runtime.mandate import Mandate
from rescheduler.runtime.metering import Metering
from rescheduler.runtime.watching import Watching
from rescheduler.web.api import Api
from rescheduler.web.loads import Loads
from rescheduler.web.measuring import Measuring
from rescheduler.web.moves import Moves
from rescheduler.web.plans import Mind, Plans
from rescheduler.web.showing import Health, Replica, Showing, Usage


@dataclass(frozen=True, slots=True)
class PageParts:
    """What the page is made from."""

    mandate: Mandate
    watching: Watching
    identity: str
    cluster: str
    """Where we are connected to, in words."""
    now: Callable[[], float]
    election: Election | None = None
    """None where there is only one replica."""
    paused: Callable[[], Pause | None] = lambda: None
    local: bool = False
    """Whether the server takes actions from this machine without a token."""
    checks: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """By name, what else must be fine, each with why it is not."""
    metering: Callable[[], Metering | None] = lambda: None
    """Who measures what is used; None where nobody does."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is served, and who is told of plans."""

    api: Api
    plans: Plans
    showing: Showing


def page_of(parts: PageParts) -> Page:
    """The page of a controller."""
    mandate, watching = parts.mandate, parts.watching
    replica = _replica(parts)

    def interval() -> float:
        return mandate.config.fields.rescheduling_interval

    plans = Plans(lambda: _mind(watching, mandate.policy()), parts.now, interval, replica.leading)
    loads = Loads(watching.cache, mandate.policy())
    measuring = Measuring(loads, lambda: watching.cache.copied(parts.now()), parts.metering)
    mandate.listen(plans.think_anew)
    mandate.listen(lambda: loads.judge_by(mandate.policy()))
    mandate.listen(measuring.again)
    showing = Showing(
        cluster=parts.cluster.partition(" of ")[0],  # not in which file: whoever looks need not know our paths
        mandate=mandate,
        replica=replica,
        cache=watching.cache,
        board=watching.board,
        loads=loads,
        moves=Moves(watching.board, parts.now, loads.touch),
        plans=plans,
        now=parts.now,
        paused=parts.paused,
        health=lambda: _health(parts, replica),
        measuring=measuring,
        usage=lambda: _usage(parts.metering()),
        local=parts.local,
    )
    return Page(Api(showing), plans, showing)


def _replica(parts: PageParts) -> Replica:
    election = parts.election
    if election is None:
        return Replica(parts.identity, lambda: True, lambda: parts.identity)
    return Replica(parts.identity, election.leading.is_set, lambda: election.holder)


def _mind(watching: Watching, policy: Policy) -> Mind:
    return Mind(
        copied=settled(watching.copied, watching.board, policy.cool_down),
        plan=lambda snapshot: planned(snapshot, policy),
        explain=lambda planner, plan, key: explanation_document(explained(planner, plan, key), plan),
        context=lambda snapshot: _context(snapshot, policy),
        lacking=watching.unknown,
    )


def _context(snapshot: ClusterSnapshot, policy: Policy) -> Context:
    """What guards look things up in, without a planner around it."""
    workloads = Workloads(snapshot)
    methods = Methods(snapshot, workloads, policy.migration_method)
    empty = frozenset(node.name for node in snapshot.nodes if node.maintenance)
    return Context(policy, snapshot, workloads, methods, empty)


def _usage(metering: Metering | None) -> Usage:
    if metering is None:
        return Usage()
    return Usage(metering.last, metering.failure)


def _health(parts: PageParts, replica: Replica) -> list[Health]:
    leader = replica.leader()
    found = [Health("leader", "" if leader else "nobody leads: nothing is planned or moved")]
    found += [Health(name, check()) for name, check in parts.checks.items()]
    if (metering := parts.metering()) is not None:
        heard = metering.last
        why = metering.failure or ("" if heard is not None else "asked for the first time")
        lag = max(0.0, parts.now() - heard) if heard is not None else None
        found.append(Health("usage", why, metering.known, lag))
    for kind in parts.watching.kinds():
        why = kind.failure or ("" if kind.lag is not None else "being read for the first time")
        found.append(Health(kind.kind, why, kind.objects, kind.lag))
    return found
