"""Profiles of descheduler and koordinator, which become one set of strategies here.

`policy` and `koordinator` call `take_profiles`. Plugins that are enabled in several profiles with different options
keep the first ones, and that is told; profiles of different nodes, which koordinator has, become node pools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rescheduler.config.errors import Loc, format_path, quote, wrong_type
from rescheduler.convert.builder import ConfigBuilder, Path
from rescheduler.convert.descheduler_plugins import PLUGINS
from rescheduler.convert.evictor import EVICTOR, merged
from rescheduler.convert.values import (
    InputValue,
    Option,
    Plugin,
    idle,
    missing,
    seconds,
    selector,
    selector_text,
    settled,
    take_options,
    whole,
)

_DECIDING = ("deschedule", "balance")
_GUARDING = ("filter", "preEvictionFilter", "preevictionfilter", "evict")
_SORTING = ("presort", "sort", "preSort")
_STRAY = "it is beside args, where it counts for nothing, and may have been meant as a filter"
_POOLED = ("cpuThreshold", "memoryThreshold", "thresholds", "thresholdMode", "hotAfterCycles", "strategies")
"""Fields that a node pool may have of its own."""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """One tool's plugins."""

    plugins: Mapping[str, Plugin]
    evictors: Mapping[str, Plugin]
    """Those that say which pods may go."""
    selects_nodes: bool = False
    """Whether a profile may be of some nodes alone."""

    @property
    def needs_config(self) -> bool:
        """Whether a plugin that is enabled must have a pluginConfig, be it empty."""
        return not self.selects_nodes


def _ignored(builder: ConfigBuilder, item: InputValue) -> None:
    """Seen to elsewhere."""


def take_profiles(builder: ConfigBuilder, item: InputValue, dialect: PluginSet) -> None:
    """All profiles, as one set of strategies."""
    if not isinstance(item.value, list):
        builder.wrong(item.loc, wrong_type(item.value, "a list"))
        return
    evictors: list[ConfigBuilder] = []
    profiles: list[tuple[_Profile, ConfigBuilder]] = []
    seen: dict[str, InputValue] = {}
    for index, each in enumerate(item.value):
        evictors.append(ConfigBuilder())
        one = InputValue(each, (*item.loc, index))
        if dialect.selects_nodes and len(item.value) > 1 and one.child("nodeSelector").value is not None:
            _take_as_pool(builder, evictors[-1], one, dialect)
        else:
            profiles.append((_Profile(builder, evictors[-1], one, dialect, seen), evictors[-1]))
            profiles[-1][0].take()
    if len(profiles) == len(evictors):
        _select_by_strategy(builder, profiles)
    merged(builder, evictors)


def _select_by_strategy(builder: ConfigBuilder, profiles: Sequence[tuple[_Profile, ConfigBuilder]]) -> None:
    """A selector that not all evictors have becomes one of the strategies of their profiles."""
    path = ("filters", "podSelector")
    if len({evictor.get(path) for _, evictor in profiles}) < 2:
        return
    first = {strategy: evictor.get(path) for profile, evictor in profiles for strategy in profile.own}
    for profile, evictor in profiles:
        for strategy in profile.shared:
            if _is_on(builder, strategy) and evictor.get(path) != first[strategy]:
                why = f"{strategy} is for pods that {quote(first[strategy] or '')} selects, by a profile before it"
                builder.miss(profile.item.loc, why, f"strategies.{strategy}.podSelector")
    for profile, evictor in profiles:
        text, own = evictor.get(path), (strategy for strategy in profile.own if _is_on(builder, strategy))
        if text is None:
            continue
        evictor.drop(path)
        for strategy in own:
            there = ("strategies", strategy, "podSelector")
            before = builder.get(there)
            builder.drop(there)
            both = f"{before},{text}" if before else text
            builder.put(there, both, evictor.origins[path], "there of the evictor of its profile")


def _is_on(builder: ConfigBuilder, strategy: str) -> bool:
    enabled = builder.data.get("enabledStrategies")
    return isinstance(enabled, list) and strategy in enabled


def _take_as_pool(builder: ConfigBuilder, guarding: ConfigBuilder, item: InputValue, dialect: PluginSet) -> None:
    """A profile of some nodes is a node pool; what a pool has no field for holds for all."""
    chosen = item.child("nodeSelector")
    text = selector_text(builder, chosen)
    if not text:
        builder.miss(item.loc, "its nodes are not told apart, so it cannot be a node pool")
        return
    part = ConfigBuilder()
    _Profile(part, guarding, item, dialect, {}, is_pool=True).take()
    made = builder.get(("pools",))
    number = len(made) if isinstance(made, list) else 0
    base: Path = ("pools", number)
    name = item.child("name")
    builder.put((*base, "name"), name.value or f"pool-{number + 1}", name.loc)
    builder.put((*base, "nodeSelector"), text, chosen.loc)
    builder.put((*base, "enabledStrategies"), part.data.get("enabledStrategies", []), item.loc)
    for path, loc in part.origins.items():
        value, comment = part.get(path), " ".join(part.comments.get(path, ()))
        if value is None or path[0] == "enabledStrategies":
            continue
        if path[0] == "pools":
            builder.miss(loc, "a pool has no pools within it", "pools, the narrower ones first")
        else:
            builder.put((*base, *path) if path[0] in _POOLED else path, value, loc, comment)
    builder.remarks += [remark for remark in part.remarks if remark not in builder.remarks]
    builder.named |= part.named
    if part.halted:
        builder.halt(*part.halted)


@dataclass(slots=True)
class _Profile:
    """One profile on its way over."""

    builder: ConfigBuilder
    guarding: ConfigBuilder
    """Where its evictors go, until those of all profiles are known."""
    item: InputValue
    dialect: PluginSet
    seen: dict[str, InputValue]
    """By strategy, the args that it has already, of this profile or of one before it."""
    is_pool: bool = False
    """Whether it is one of some nodes, and so has a name."""
    own: list[str] = field(default_factory=list)
    """The strategies that it was the first to set up."""
    shared: list[str] = field(default_factory=list)
    """Those that another profile has set up before it, in the same way."""
    strays: dict[str, Loc] = field(default_factory=dict)
    """By plugin, what is beside its args, where it counts for nothing."""

    def take(self) -> None:
        options = [
            Option("name", (), _ignored if self.is_pool else settled("a profile needs no name")),
            Option("plugins", (), _ignored),
            Option("pluginConfig", (), _ignored),
        ]
        if self.dialect.selects_nodes:
            options.append(Option("nodeSelector", (), _ignored if self.is_pool else self._select))
        take_options(self.builder, self.item, options)
        if not isinstance(self.item.value, dict):
            return
        configured = self._configured()
        enabled = self._enabled()
        for name, loc in enabled.items():
            if name not in configured and self.dialect.needs_config:
                why = "it has no pluginConfig, without which descheduler does not start; it runs here, by its defaults"
                self.builder.settled(loc, why)
            self._decide(self.dialect.plugins[name], configured.pop(name, InputValue({}, loc)))
            if name in self.strays:
                self.builder.switch_off(self.dialect.plugins[name].strategy, self.strays[name], _STRAY)
        for name, plugin in self.dialect.evictors.items():
            if (args := configured.pop(name, None)) is not None:
                plugin.convert(self.guarding, args)
            if name in self.strays:
                self.guarding.halt(self.strays[name], _STRAY)
        for name, args in configured.items():
            if name in self.dialect.plugins:
                self.builder.settled(args.loc[:-1], f"{name} is not enabled there, and stays off here")
            else:
                self.builder.unknown(args.loc[:-1], f"{quote(name)} is no plugin that is known here", harmless=True)

    def _select(self, _: ConfigBuilder, item: InputValue) -> None:
        comment = "of one profile there, of all strategies here"
        selector("filters", "nodeSelector", comment=comment)(self.guarding, item)

    def _decide(self, plugin: Plugin, args: InputValue) -> None:
        before = self.seen.get(plugin.strategy) if plugin.strategy else None
        if before is None:
            self.seen[plugin.strategy] = args
            self.own.append(plugin.strategy)
            plugin.convert(self.builder, args)
        elif before.value == args.value:
            self.builder.settled(args.loc, f"{plugin.strategy} is set up so already")
            self.shared.append(plugin.strategy)
        else:
            why = f"{plugin.strategy} is set up already, by {format_path(before.loc)}, and there is only one"
            self.builder.miss(args.loc, why, "node pools (pools) may have settings of strategies of their own")

    def _configured(self) -> dict[str, InputValue]:
        """The args of each plugin, by its name."""
        found: dict[str, InputValue] = {}
        configs = self.item.child("pluginConfig")
        if configs.value is not None and not isinstance(configs.value, list):
            self.builder.wrong(configs.loc, wrong_type(configs.value, "a list"))
        for index, each in enumerate(configs.value if isinstance(configs.value, list) else ()):
            one = InputValue(each, (*configs.loc, index))
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                self.builder.wrong(one.loc, "is not a mapping with a name")
                continue
            for name in (key for key in each if key not in ("name", "args")):
                self.builder.unknown((*one.loc, name), "a plugin's configuration has name and args")
                self.strays.setdefault(each["name"], (*one.loc, name))
            if each["name"] in found:
                self.builder.wrong(one.loc, f"{each['name']} is configured twice in one profile; the first counts")
                continue
            found[each["name"]] = one.child("args")
        return found

    def _enabled(self) -> dict[str, Loc]:
        """The plugins that decide, and where each is enabled."""
        found: dict[str, Loc] = {}
        sets = self.item.child("plugins")
        if sets.value is not None and not isinstance(sets.value, dict):
            self.builder.wrong(sets.loc, wrong_type(sets.value, "a mapping"))
        for point in sets.value if isinstance(sets.value, dict) else ():
            one = sets.child(point)
            if point not in (*_DECIDING, *_GUARDING, *_SORTING):
                known = ", ".join((*_DECIDING, "filter", "preEvictionFilter", "presort", "sort"))
                self.builder.unknown(one.loc, f"known are {known}")
                continue
            if one.value is not None and not isinstance(one.value, dict):
                self.builder.wrong(one.loc, wrong_type(one.value, "a mapping with enabled and disabled"))
            for which in one.value if isinstance(one.value, dict) else ():
                names = one.child(which)
                if which not in ("enabled", "disabled"):
                    self.builder.unknown(names.loc, "known are enabled and disabled")
                    continue
                if names.value is not None and not isinstance(names.value, list):
                    self.builder.wrong(names.loc, wrong_type(names.value, "a list"))
                for index, each in enumerate(names.value if isinstance(names.value, list) else ()):
                    name = each.get("name") if isinstance(each, dict) else each  # koordinator has mappings
                    self._plugin(str(name), (*names.loc, index), (point, which), found)
        return found

    def _plugin(self, name: str, loc: Loc, at: tuple[str, str], found: dict[str, Loc]) -> None:
        point, which = at
        if which == "disabled":
            if name in self.dialect.evictors:
                self.builder.miss(loc, "the guards always hold", "filters and allow")
            else:
                self.builder.settled(loc, "what is not enabled is off")
        elif name in self.dialect.evictors:
            self.builder.settled(loc, "the guards always hold")
        elif point in _DECIDING and name in self.dialect.plugins:
            if name in found:
                self.builder.settled(loc, "it is enabled already")
            found.setdefault(name, loc)
        elif point in _SORTING:
            self.builder.miss(loc, "the order of moves is each strategy's own", "eviction costs and priorities of pods")
        else:
            # One that decides does nothing here; one that guards may have kept pods where they are.
            why = f"{quote(name)} is no plugin that is known here"
            self.builder.unknown(loc, why, harmless=point in _DECIDING)


DESCHEDULER = PluginSet({each.name: each for each in PLUGINS}, {EVICTOR.name: EVICTOR})


def limit(*path: str) -> Callable[[ConfigBuilder, InputValue], None]:
    """A limit of at least 1."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        number = whole(builder, item)
        if number:
            builder.put(path, number, item.loc)
        elif number == 0:
            builder.halt(item.loc, "a limit of 0 is possible here for all alone")
            builder.miss(item.loc, "a limit of 0 is possible here for all alone", "maxReschedulePods: 0 moves nothing")

    return convert


def total(builder: ConfigBuilder, item: InputValue) -> None:
    """How many pods one plan may move."""
    if (number := whole(builder, item)) is not None:
        builder.put(("maxReschedulePods",), number, item.loc)


def _providers(builder: ConfigBuilder, item: InputValue) -> None:
    if not isinstance(item.value, list):
        builder.wrong(item.loc, wrong_type(item.value, "a list"))
        return
    for index, each in enumerate(item.value):
        take_options(builder, InputValue(each, (*item.loc, index)), _PROVIDER)


def _source(builder: ConfigBuilder, item: InputValue) -> None:
    if item.value == "KubernetesMetrics":
        builder.settled(item.loc, "metrics.k8s.io is asked by default, where utilization goes by use")
    elif item.value == "Prometheus":
        builder.put(("usage", "source"), "prometheus", item.loc)
    else:
        builder.unknown(item.loc, "known are KubernetesMetrics and Prometheus")


def _url(builder: ConfigBuilder, item: InputValue) -> None:
    comment = "" if "authToken" in item.parent else _WITHOUT
    builder.put(("usage", "prometheus", "url"), item.value, item.loc, comment)


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


def _collector(builder: ConfigBuilder, item: InputValue) -> None:
    take_options(
        builder, item, (Option("enabled", (), settled("metrics.k8s.io is asked where utilization goes by use")),)
    )


def _old(builder: ConfigBuilder, item: InputValue) -> None:
    builder.wrong(item.loc, "it is of descheduler/v1alpha1, and v1alpha2 does not know it: it has profiles")


def _belongs_below(builder: ConfigBuilder, item: InputValue) -> None:
    builder.wrong(item.loc, f"in v1alpha2 it is one of the args of {EVICTOR.name}, within pluginConfig of a profile")


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


def convert_policy(builder: ConfigBuilder, policy: InputValue) -> None:
    """The whole of a DeschedulerPolicy."""
    profiles = Option("profiles", ("enabledStrategies",), lambda d, g: take_profiles(d, g, DESCHEDULER))
    misplaced = [Option(each.name, (), _belongs_below) for each in EVICTOR.options if each.name != "nodeSelector"]
    take_options(builder, policy, (*TOP, profiles), besides=misplaced)
    builder.data.setdefault("enabledStrategies", [])


DRY = idle("it is a dry run there, and here that is a flag of the command", "rescheduler run --dry-run")
"""`dryRun`."""
