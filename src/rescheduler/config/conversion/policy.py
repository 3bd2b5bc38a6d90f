"""descheduler's policy (`descheduler/v1alpha2`, DeschedulerPolicy) and what koordinator's configuration shares with it.

`converting` calls `convert_policy`; `profiles` takes the profiles over.
"""

from __future__ import annotations

from collections.abc import Callable

from rescheduler.config.conversion.descheduler_plugins import PLUGINS
from rescheduler.config.conversion.draft import Draft
from rescheduler.config.conversion.evictor import EVICTOR
from rescheduler.config.conversion.options import Given, Option, take_options
from rescheduler.config.conversion.profiles import Dialect, take_profiles
from rescheduler.config.conversion.values import idle, missing, seconds, selector, settled, whole
from rescheduler.config.errors import wrong_type

DESCHEDULER = Dialect({each.name: each for each in PLUGINS}, {EVICTOR.name: EVICTOR})


def limit(*path: str) -> Callable[[Draft, Given], None]:
    """A limit of at least 1."""

    def convert(draft: Draft, given: Given) -> None:
        number = whole(draft, given)
        if number:
            draft.put(path, number, given.loc)
        elif number == 0:
            draft.halt(given.loc, "a limit of 0 is possible here for all alone")
            draft.miss(given.loc, "a limit of 0 is possible here for all alone", "maxReschedulePods: 0 moves nothing")

    return convert


def total(draft: Draft, given: Given) -> None:
    """How many pods one plan may move."""
    if (number := whole(draft, given)) is not None:
        draft.put(("maxReschedulePods",), number, given.loc)


def _providers(draft: Draft, given: Given) -> None:
    if not isinstance(given.value, list):
        draft.wrong(given.loc, wrong_type(given.value, "a list"))
        return
    for index, each in enumerate(given.value):
        take_options(draft, Given(each, (*given.loc, index)), _PROVIDER)


def _source(draft: Draft, given: Given) -> None:
    if given.value == "KubernetesMetrics":
        draft.settled(given.loc, "metrics.k8s.io is asked by default, where utilization goes by use")
    elif given.value == "Prometheus":
        draft.put(("usage", "source"), "prometheus", given.loc)
    else:
        draft.unknown(given.loc, "known are KubernetesMetrics and Prometheus")


def _url(draft: Draft, given: Given) -> None:
    comment = "" if "authToken" in given.around else _WITHOUT
    draft.put(("usage", "prometheus", "url"), given.value, given.loc, comment)


_WITHOUT = "there with the service account's token; here with none, unless bearerTokenFile names a file"
_TOKEN = missing("no Secret is read by its name", "usage.prometheus.bearerTokenFile: mount the Secret")
_PROVIDER = (
    Option("source", ("usage.source",), _source),
    Option(
        "prometheus",
        ("usage.prometheus.url", "usage.prometheus.bearerTokenFile"),
        lambda d, g: take_options(d, g, (Option("url", (), _url), Option("authToken", (), _TOKEN))),
    ),
)


def _collector(draft: Draft, given: Given) -> None:
    take_options(
        draft, given, (Option("enabled", (), settled("metrics.k8s.io is asked where utilization goes by use")),)
    )


def _old(draft: Draft, given: Given) -> None:
    draft.wrong(given.loc, "it is of descheduler/v1alpha1, and v1alpha2 does not know it: it has profiles")


def _belongs_below(draft: Draft, given: Given) -> None:
    draft.wrong(given.loc, f"in v1alpha2 it is one of the args of {EVICTOR.name}, within pluginConfig of a profile")


TOP: tuple[Option, ...] = (
    Option(
        "nodeSelector",
        ("filters.nodeSelector",),
        selector("filters", "nodeSelector", comment="pods are moved from these nodes alone; they may go to others"),
        "pods may be moved to other nodes",
    ),
    Option("maxNoOfPodsToEvictPerNode", ("limits.perNodeOut",), limit("limits", "perNodeOut")),
    Option("maxNoOfPodsToEvictPerNamespace", ("limits.perNamespace",), limit("limits", "perNamespace")),
    Option("maxNoOfPodsToEvictTotal", ("maxReschedulePods",), total, "10 by default"),
    Option(
        "gracePeriodSeconds",
        ("migration.evictionGracePeriod",),
        seconds("migration", "evictionGracePeriod"),
        "30s by default; a longer one of the pod holds",
    ),
    Option("evictionFailureEventNotification", (), settled("Events are always told"), "Events, always"),
    Option("metricsCollector", (), _collector, "`usage.source: metrics.k8s.io` is the default"),
    Option("metricsProviders", ("usage.source", "usage.prometheus.url"), _providers, "a token is a mounted file"),
    Option("metadata", (), settled("a configuration needs no name"), "needs none"),
    Option("tracing", (), missing("there are no traces", "logs, Events, metrics, the page")),
    Option("strategies", (), _old, "of `descheduler/v1alpha1`: not converted"),
)


def convert_policy(draft: Draft, policy: Given) -> None:
    """The whole of a DeschedulerPolicy."""
    profiles = Option("profiles", ("enabledStrategies",), lambda d, g: take_profiles(d, g, DESCHEDULER))
    misplaced = [Option(each.name, (), _belongs_below) for each in EVICTOR.options if each.name != "nodeSelector"]
    take_options(draft, policy, (*TOP, profiles), besides=misplaced)
    draft.data.setdefault("enabledStrategies", [])


DRY = idle("it is a dry run there, and here that is a flag of the command", "rescheduler run --dry-run")
"""`dryRun`."""
