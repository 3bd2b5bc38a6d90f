"""DeschedulerPolicy, and profiles of descheduler and koordinator.

All strategies share one set of guards here. So a further profile is merged with the first only if it limits pods in the
same way: the same evictor, the same nodes. Otherwise it is left out, and a remark says so: its plugins move nothing. A
plugin that several profiles set up in different ways keeps the first one's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rescheduler.config.errors import Loc, format_path
from rescheduler.convert.builder import ConfigBuilder
from rescheduler.convert.descheduler_plugins import EVICTOR, PLUGINS
from rescheduler.convert.values import (
    InputValue,
    Option,
    Plugin,
    Reader,
    choice,
    idle,
    ignore,
    list_items,
    missing,
    nested,
    seconds,
    selector,
    take_options,
    unneeded,
    whole,
)
from rescheduler.model.fields import quote, wrong_type

_DECIDING = ("deschedule", "balance")
_GUARDING = ("filter", "preEvictionFilter", "preevictionfilter", "evict")
_SORTING = ("presort", "sort", "preSort")
_STRAY = "it is beside args, where it counts for nothing, and may have been meant as a filter"


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The plugins of one tool."""

    plugins: Mapping[str, Plugin]
    evictors: Mapping[str, Plugin]
    """Plugins that say which pods may go."""
    selects_nodes: bool = False
    """Whether a profile may have a nodeSelector; without, an enabled plugin must have a pluginConfig."""


def convert_profiles(builder: ConfigBuilder, item: InputValue, tool: PluginSet) -> None:
    """Convert the first profile, and those that can be merged with it."""
    converted: dict[str, InputValue] = {}
    profiles = [_Profile(builder, each, tool, converted) for each in list_items(builder, item)]
    for profile in profiles:
        if why := profile.find_conflict(profiles[0]):
            builder.add_missing(
                profile.item.loc, f"{why}, so it is left out", "a conversion of its own, or node pools (pools)"
            )
        else:
            profile.convert()
            if profile is profiles[0]:
                profile.convert_guards()
            else:  # they are the same as those of the first
                guards = [profile.configured[name] for name in tool.evictors if name in profile.configured]
                builder.taken |= {each.loc for each in (*guards, profile.item.child("nodeSelector"))}


@dataclass(slots=True)
class _Profile:
    """Converts one profile."""

    builder: ConfigBuilder
    item: InputValue
    tool: PluginSet
    converted: dict[str, InputValue]
    """By strategy, the args by which it is set up, in this profile or one before it."""
    enabled: dict[str, Loc] = field(default_factory=dict)
    """The plugins that choose pods, and where each is enabled."""
    configured: dict[str, InputValue] = field(default_factory=dict)
    """The args of plugins by name."""
    strays: dict[str, Loc] = field(default_factory=dict)
    """By plugin, what is beside its args."""

    def find_conflict(self, first: _Profile) -> str:
        """Return why the profile cannot be merged with the first one; empty if it can."""
        if self._limits() != first._limits():
            return "its evictor limits pods in another way than that of the first profile"
        if self.item.child("nodeSelector").value != first.item.child("nodeSelector").value:
            return "it is of other nodes than the first profile"
        return ""

    def _limits(self) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = {name: {"args": {}} for name in self.tool.evictors}
        for each in reversed(self.item.child("pluginConfig").items):  # of two with one name the first counts
            name = str(each.child("name").value)
            if name in found:
                found[name] = {"args": {}} | {key: value for key, value in each.mapping.items() if value is not None}
                del found[name]["name"]
        return found

    def convert(self) -> None:
        """Convert the plugins."""
        ignored = ("plugins", "pluginConfig", *(["nodeSelector"] if self.tool.selects_nodes else []))
        naming = Option("name", "", unneeded("a profile needs no name"))
        take_options(self.builder, self.item, (naming, *(Option(each, "", ignore) for each in ignored)))
        if not isinstance(self.item.value, dict):
            return
        self._read_configs()
        self._read_plugins()
        for name, loc in self.enabled.items():
            if name not in self.configured and not self.tool.selects_nodes:
                why = "it has no pluginConfig, without which descheduler does not start; it runs here, by its defaults"
                self.builder.add_unneeded(loc, why)
            plugin = self.tool.plugins[name]
            self._convert_plugin(plugin, self.configured.pop(name, InputValue({}, loc)))
            if name in self.strays:
                self.builder.switch_off(plugin.strategy, self.strays[name], _STRAY)
        for name, args in self.configured.items():
            if name in self.tool.plugins:
                self.builder.add_unneeded(args.loc[:-1], f"{name} is not enabled there, and stays off here")
            elif name not in self.tool.evictors:
                self.builder.add_unknown(args.loc[:-1], f"{quote(name)} is no plugin that is known here", harmless=True)

    def convert_guards(self) -> None:
        """Convert the evictors and the nodeSelector, after all plugins."""
        for name, plugin in self.tool.evictors.items():
            if name in self.configured:
                plugin.convert(self.builder, self.configured[name])
            if name in self.strays:
                self.builder.halt(self.strays[name], _STRAY)
        nodes = self.item.child("nodeSelector")
        if self.tool.selects_nodes and nodes.value is not None and (text := selector(self.builder, nodes)):
            comment = "of one profile there, of all strategies here"
            self.builder.put(("filters", "nodeSelector"), text, nodes.loc, comment)

    def _convert_plugin(self, plugin: Plugin, args: InputValue) -> None:
        before = self.converted.get(plugin.strategy) if plugin.strategy else None
        if before is None:
            self.converted[plugin.strategy] = args
            plugin.convert(self.builder, args)
        elif before.value == args.value:
            self.builder.add_unneeded(args.loc, f"{plugin.strategy} is set up so already")
        else:
            why = f"{plugin.strategy} is set up already, by {format_path(before.loc)}, and there is only one"
            self.builder.add_missing(args.loc, why, "node pools (pools) may have settings of strategies of their own")

    def _read_configs(self) -> None:
        for each in list_items(self.builder, self.item.child("pluginConfig")):
            name = each.child("name").value
            if not isinstance(name, str):
                self.builder.add_wrong(each.loc, "is not a mapping with a name")
                continue
            for key in (key for key in each.mapping if key not in ("name", "args")):
                self.builder.add_unknown((*each.loc, key), "a plugin's configuration has name and args")
                self.strays.setdefault(name, (*each.loc, key))
            if name in self.configured:
                self.builder.add_wrong(each.loc, f"{name} is configured twice in one profile; the first counts")
                continue
            self.configured[name] = each.child("args")

    def _read_plugins(self) -> None:
        sets = self.item.child("plugins")
        if sets.value is not None and not isinstance(sets.value, dict):
            self.builder.add_wrong(sets.loc, wrong_type(sets.value, "a mapping"))
        for point in sets.mapping:
            one = sets.child(point)
            if point not in (*_DECIDING, *_GUARDING, *_SORTING):
                known = ", ".join((*_DECIDING, "filter", "preEvictionFilter", "presort", "sort"))
                self.builder.add_unknown(one.loc, f"known are {known}")
                continue
            if one.value is not None and not isinstance(one.value, dict):
                self.builder.add_wrong(one.loc, wrong_type(one.value, "a mapping with enabled and disabled"))
            for which in one.mapping:
                names = one.child(which)
                if which not in ("enabled", "disabled"):
                    self.builder.add_unknown(names.loc, "known are enabled and disabled")
                    continue
                for each in list_items(self.builder, names):
                    self._read_plugin(str(_name(each.value)), each.loc, point, which)

    def _read_plugin(self, name: str, loc: Loc, point: str, which: str) -> None:
        is_evictor = name in self.tool.evictors
        if which == "disabled" and is_evictor:
            self.builder.add_missing(loc, "the guards always hold", "filters and allow")
        elif which == "disabled":
            self.builder.add_unneeded(loc, "what is not enabled is off")
        elif is_evictor:
            self.builder.add_unneeded(loc, "the guards always hold")
        elif point in _DECIDING and name in self.tool.plugins:
            if name in self.enabled:
                self.builder.add_unneeded(loc, "it is enabled already")
            self.enabled.setdefault(name, loc)
        elif point in _SORTING:
            self.builder.add_missing(
                loc, "the order of moves is each strategy's own", "eviction costs and priorities of pods"
            )
        else:
            # A plugin that chooses pods is only missing here; one that guards may have kept pods where they are.
            why = f"{quote(name)} is no plugin that is known here"
            self.builder.add_unknown(loc, why, harmless=point in _DECIDING)


def _name(entry: object) -> object:
    """Return a plugin's name; koordinator has mappings."""
    return entry.get("name") if isinstance(entry, dict) else entry


DESCHEDULER = PluginSet({each.name: each for each in PLUGINS}, {EVICTOR.name: EVICTOR})


def _limit(builder: ConfigBuilder, item: InputValue) -> int | None:
    """Read a limit of at least 1."""
    number = whole(builder, item)
    if number == 0:
        builder.halt(item.loc, "a limit of 0 is possible here for all alone")
        builder.add_missing(
            item.loc, "a limit of 0 is possible here for all alone", "maxReschedulePods: 0 moves nothing"
        )
    return number or None


def _read_providers(builder: ConfigBuilder, item: InputValue) -> None:
    for each in list_items(builder, item):
        take_options(builder, each, _PROVIDER)


_SOURCE = choice(
    {
        "KubernetesMetrics": unneeded("metrics.k8s.io is asked by default, where utilization goes by use"),
        "Prometheus": "prometheus",
    },
    known="KubernetesMetrics and Prometheus",
)


def _read_url(builder: ConfigBuilder, item: InputValue) -> None:
    comment = "there with the service account's token; here with none, unless bearerTokenFile names a file"
    builder.put(("usage", "prometheus", "url"), item.value, item.loc, "" if "authToken" in item.parent else comment)


_TOKEN = missing("no Secret is read by its name", "usage.prometheus.bearerTokenFile: mount the Secret")
_PROVIDER = (
    Option("source", "usage.source", _SOURCE),
    Option("prometheus", "", nested(Option("url", "", _read_url), Option("authToken", "", _TOKEN))),
)


def _wrong(why: str) -> Reader:
    return lambda builder, item: builder.add_wrong(item.loc, why)


TOP: tuple[Option, ...] = (
    Option(
        "nodeSelector",
        "filters.nodeSelector",
        selector,
        "pods may be moved to other nodes",
        "pods are moved from these nodes alone; they may go to others",
    ),
    Option("maxNoOfPodsToEvictPerNode", "limits.perNodeOut", _limit),
    Option("maxNoOfPodsToEvictPerNamespace", "limits.perNamespace", _limit),
    Option("maxNoOfPodsToEvictTotal", "maxReschedulePods", whole, "10 by default"),
    Option(
        "gracePeriodSeconds",
        "migration.evictionGracePeriod",
        seconds,
        "30s by default; a longer one of the pod counts",
    ),
    Option(
        "evictionFailureEventNotification", "", unneeded("Events are always recorded"), "Events are always recorded"
    ),
    Option(
        "metricsCollector",
        "",
        nested(Option("enabled", "", unneeded("metrics.k8s.io is asked where utilization goes by use"))),
        "`usage.source: metrics.k8s.io` is the default",
    ),
    Option("metricsProviders", "usage.source usage.prometheus.url", _read_providers, "a token is a mounted file"),
    Option("metadata", "", unneeded("a configuration needs no name"), "not needed"),
    Option("tracing", "", missing("there are no traces", "logs, Events, metrics, the page")),
    Option(
        "strategies",
        "",
        _wrong("it is of descheduler/v1alpha1, and v1alpha2 does not know it: it has profiles"),
        "of `descheduler/v1alpha1`: not converted",
    ),
)


def convert_policy(builder: ConfigBuilder, policy: InputValue) -> None:
    """Convert a DeschedulerPolicy."""
    profiles = Option("profiles", "", lambda b, each: convert_profiles(b, each, DESCHEDULER))
    why = f"in v1alpha2 it is one of the args of {EVICTOR.name}, within pluginConfig of a profile"
    misplaced = [Option(each.name, "", _wrong(why)) for each in EVICTOR.options if each.name != "nodeSelector"]
    take_options(builder, policy, (*TOP, profiles), besides=misplaced)
    builder.data.setdefault("enabledStrategies", [])


DRY = idle("it is a dry run there, and here that is a flag of the command", "rescheduler run --dry-run")
"""`dryRun`."""
