"""koordinator's configuration (`descheduler/v1alpha2`, DeschedulerConfiguration), with its MigrationController.

`converting` calls `convert_koordinator`. MigrationController is what carries moves out there; here that is the section
`migration`, and what it protects is protected by guards. Its defaults that are stricter than ours are written out.
"""

from __future__ import annotations

from math import ceil

from rescheduler.config.conversion.descheduler_plugins import PLUGINS as THEIRS
from rescheduler.config.conversion.draft import Draft, Path
from rescheduler.config.conversion.evictor import EVICTOR, OPTIONS
from rescheduler.config.conversion.koordinator_plugins import PLUGINS
from rescheduler.config.conversion.options import Given, Option, Plugin, take_options
from rescheduler.config.conversion.policy import DRY, TOP
from rescheduler.config.conversion.profiles import Dialect, take_profiles
from rescheduler.config.conversion.values import (
    duration,
    flag,
    length_of,
    missing,
    namespaces,
    same,
    seconds,
    selector,
    settled,
    texts_of,
    whole,
)
from rescheduler.config.errors import shown

_SHARED = ("labelSelector", "priorityThreshold", "nodeFit", "evictLocalStoragePods", "evictFailedBarePods")
_CONCURRENCY: Path = ("migration", "concurrency")
_PER_NODE = 2  # koordinator's default; ours is 4
_HOUR = 3600.0


def _at_once(field: str) -> Option:
    path = (*map(str, _CONCURRENCY), field)
    theirs = {"total": "maxMigratingGlobally"}.get(field, f"maxMigrating{field[0].upper()}{field[1:]}")

    def convert(draft: Draft, given: Given) -> None:
        if given.value == 0:
            draft.put(path, "unlimited", given.loc, "0 is no limit there")
        else:
            draft.put(path, given.value, given.loc)

    return Option(theirs, (".".join(path),), convert)


def _unavailable(draft: Draft, given: Given) -> None:
    comment = "there of all workloads; here where a workload has no disruption budget of its own"
    draft.put(("migration", "temporaryBudget", "maxUnavailable"), given.value, given.loc, comment)


def _mode(draft: Draft, given: Given) -> None:
    if given.value == "ReservationFirst":
        comment = "auto: the replacement is Ready before the pod goes, where that is possible"
        draft.put(("migrationMethod",), "auto", given.loc, comment)
    elif given.value == "EvictDirectly":
        draft.put(("migrationMethod",), "evict", given.loc)
    else:
        draft.wrong(given.loc, f"{shown(given.value)} is not one of ReservationFirst, EvictDirectly")


def _policy(draft: Draft, given: Given) -> None:
    if given.value in ("Eviction", ""):
        draft.settled(given.loc, "the Eviction API is always used")
    elif given.value == "Delete":
        draft.miss(
            given.loc, "the Eviction API is always used, by intent", "migrationMethod: handoff needs no eviction"
        )
    elif given.value == "SoftEviction":
        draft.miss(given.loc, "pods are only marked there, for others to move", "approval: required", limits=True)
    else:
        draft.wrong(given.loc, f"{shown(given.value)} is not one of Eviction, Delete, SoftEviction")


def _limiters(draft: Draft, given: Given) -> None:
    take_options(draft, given, (Option("workload", (), _of_workload), Option("namespace", (), _of_namespace)))


def _of_workload(draft: Draft, given: Given) -> None:
    lost = missing("a workload rests as a whole after a move", "coolDown, migration.concurrency.perWorkload")
    take_options(
        draft,
        given,
        (
            Option("duration", (), duration("coolDown", comment="longer after moves that do not pay")),
            Option("maxMigrating", (), lost),
        ),
    )


def _of_namespace(draft: Draft, given: Given) -> None:
    most, length = given.inner("maxMigrating"), given.inner("duration")
    take_options(draft, given, (Option("duration", (), _later), Option("maxMigrating", (), _later)))
    lasting = length_of(draft, length) if length.value is not None else None
    number = whole(draft, most) if most.value is not None else None
    nearest = "when.movesPerHourPerNamespace"
    if not number or not lasting:
        draft.miss(given.loc, "it needs a duration and a number of moves", nearest, limits=bool(lasting))
        return
    # All moves of an hour may begin at once, so a limit within 10 minutes is one within the hour, too.
    rate = number // ceil(lasting / _HOUR)
    if not rate:
        draft.miss(given.loc, "fewer moves than one in an hour are not possible", nearest, limits=True)
        return
    comment = "" if lasting == _HOUR else f"there {number} within {length.value}; here within any 60 minutes"
    draft.put(("when", "movesPerHourPerNamespace"), rate, given.loc, comment)


def _later(draft: Draft, given: Given) -> None:
    """Seen to by whoever asked."""


def _grace(draft: Draft, given: Given) -> None:
    lost = missing("the Eviction API is always used, with a grace period", "migration.evictionGracePeriod")
    dry = missing(
        "it is a dry run there, and here that is a flag of the command", "rescheduler run --dry-run", limits=True
    )
    options = (
        Option("gracePeriodSeconds", (), seconds("migration", "evictionGracePeriod")),
        *(Option(name, (), lost) for name in ("preconditions", "orphanDependents", "propagationPolicy")),
        Option("dryRun", (), dry),
    )
    take_options(draft, given, options)


def _selected(draft: Draft, given: Given) -> None:
    selector("filters", "nodeSelector", comment="pods are moved from these nodes alone")(draft, given)


def _meant(draft: Draft, given: Given) -> None:
    include = given.inner("include")
    if include.value:
        namespaces("filters")(draft, given)
    elif (found := texts_of(draft, given.inner("exclude")) if given.inner("exclude").value else None) is not None:
        kept = [*dict.fromkeys((*found, "kube-system", "kube-public"))]
        comment = "" if {*kept} == {*found} else "with those that are excluded here by default"
        draft.put(("excludedNamespaces",), kept, given.loc, comment)
    else:
        draft.settled(given.loc, "it names no namespaces")


def _bare(draft: Draft, given: Given) -> None:
    if given.value is True:
        draft.put(("filters", "withoutController"), value=True, loc=given.loc, comment="by a copy")
    else:
        flag()(draft, given)


_NOT_NEEDED = settled("not needed: the planner decides before anything is ordered")
_RATE = missing("moves are limited by the hour", "when.movesPerHour; clientConnection.qps and burst")
_EVICTOR = {option.name: option for option in OPTIONS}
MIGRATION = Plugin(
    "MigrationController",
    "",
    (
        Option("dryRun", (), DRY, "nothing is moved; `run --dry-run`"),
        Option("maxConcurrentReconciles", (), _NOT_NEEDED, "not needed"),
        *(_EVICTOR[name] for name in (*_SHARED, "evictSystemCriticalPods", "ignorePvcPods")),
        Option("evictAllBarePods", ("filters.withoutController",), _bare, "true by default, by a copy"),
        Option("namespaces", ("filters.namespaces", "excludedNamespaces"), _meant),
        Option("nodeSelector", ("filters.nodeSelector",), _selected),
        _at_once("total"),
        _at_once("perNode"),
        _at_once("perNamespace"),
        _at_once("perWorkload"),
        Option(
            "maxUnavailablePerWorkload",
            ("migration.temporaryBudget.maxUnavailable",),
            _unavailable,
            "where a workload has no budget of its own; never more than half of the replicas in one plan",
        ),
        Option("skipCheckExpectedReplicas", ("allow.singleReplica",), flag("allow", "singleReplica")),
        Option(
            "objectLimiters",
            ("coolDown", "when.movesPerHourPerNamespace"),
            _limiters,
            "the workload's duration is `coolDown`; as many moves of a namespace within an hour as there within less",
        ),
        Option("defaultJobMode", ("migrationMethod",), _mode, "`ReservationFirst`: `auto`; `EvictDirectly`: `evict`"),
        Option("defaultJobTTL", ("migration.timeout",), duration("migration", "timeout"), "10m by default"),
        Option("schedulerNames", (), settled("any scheduler"), "any scheduler"),
        Option("evictQPS", (), _RATE),
        Option("evictBurst", (), _RATE),
        Option("evictionPolicy", (), _policy, "the Eviction API, always; with `SoftEviction` nothing is moved"),
        Option("defaultDeleteOptions", ("migration.evictionGracePeriod",), _grace),
        Option("arbitrationArgs", (), _NOT_NEEDED, "the planner decides before anything is ordered"),
        Option("flowControlQPS", (), _RATE, "older spelling"),
        Option("flowControlBurst", (), _RATE, "older spelling"),
    ),
    "PodMigrationJob is PodMigration (`kubectl get pmig`)",
)
KOORDINATOR = Dialect(
    {each.name: each for each in (*PLUGINS, *THEIRS)},
    {EVICTOR.name: EVICTOR, MIGRATION.name: MIGRATION},
    selects_nodes=True,
)


def _election(draft: Draft, given: Given) -> None:
    path = "leaderElection"
    own = settled("our Lease has a name and a namespace of its own: two programs never share one")
    durations = ("leaseDuration", "renewDeadline", "retryPeriod")
    options = (
        Option("leaderElect", (), same(path, "leaderElect")),
        *(Option(name, (), duration(path, name)) for name in durations),
        Option("resourceLock", (), settled("it is always a Lease")),
        Option("resourceName", (), own),
        Option("resourceNamespace", (), own),
    )
    take_options(draft, given, options)


def _connection(draft: Draft, given: Given) -> None:
    path = "clientConnection"
    json = settled("JSON is spoken")
    names = ("kubeconfig", "qps", "burst")
    options = (
        *(Option(name, (), same(path, name)) for name in names),
        Option("contentType", (), json),
        Option("acceptContentTypes", (), json),
    )
    take_options(draft, given, options)


_SERVED = missing("health, metrics and the page have one address", "web.bindAddress and web.port")
_PROFILING = missing("there is no profiling endpoint", "web.port: metrics, and health")
_CONFIGURATION: tuple[Option, ...] = (
    *(option for option in TOP if option.name.startswith("maxNoOf")),
    Option("nodeSelector", ("filters.nodeSelector",), _selected, "pods may be moved to other nodes"),
    Option("deschedulingInterval", ("reschedulingInterval",), duration("reschedulingInterval")),
    Option("dryRun", (), DRY, "nothing is moved; `run --dry-run`"),
    Option("leaderElection", ("leaderElection",), _election, "its Lease is our own"),
    Option("clientConnection", ("clientConnection",), _connection),
    Option("healthzBindAddress", (), _SERVED, "`web.port`"),
    Option("metricsBindAddress", (), _SERVED, "`web.port`"),
    Option("enableProfiling", (), _PROFILING),
    Option("enableContentionProfiling", (), _PROFILING),
)
CONFIGURATION = Plugin("DeschedulerConfiguration", "", _CONFIGURATION)


def convert_koordinator(draft: Draft, config: Given) -> None:
    """The whole of a DeschedulerConfiguration."""
    profiles = Option("profiles", ("enabledStrategies",), lambda d, g: take_profiles(d, g, KOORDINATOR))
    take_options(draft, config, (*_CONFIGURATION, profiles))
    draft.data.setdefault("enabledStrategies", [])
    if draft.get((*_CONCURRENCY, "perNode")) is None:
        draft.put((*_CONCURRENCY, "perNode"), _PER_NODE, (), "koordinator's default; 4 is ours")
