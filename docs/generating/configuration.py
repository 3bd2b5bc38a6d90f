"""docs/configuration.md: every field and setting, made from the models so that it cannot drift from them.

Types and bounds come from the models' JSON schemas, defaults and descriptions from their fields; the examples are
loaded by a test.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.alias_generators import to_camel

from rescheduler.config.live import RESTART_ONLY
from rescheduler.config.loader import SCHEDULER_KIND, SCHEDULER_VERSIONS
from rescheduler.config.schema import INHERITED, NATIVE_KIND, NATIVE_VERSION, Fields
from rescheduler.config.validate import Model, fields_by_name, item_model, nested_model
from rescheduler.planning.settings import StrategySettings
from rescheduler.strategies import settings_by_name

NATIVE_EXAMPLE = f"""\
apiVersion: {NATIVE_VERSION}
kind: {NATIVE_KIND}
reschedulingInterval: 1m
enabledStrategies: [NodeMaintenance, ResourceOptimization, LoadBalancing]
cpuThreshold: 70
maxReschedulePods: 20
excludedPodSelector: app=db,tier in (cache)
limits:
  perNodeIn: 5
  perWorkload: 1
coolDown: 15m
migration:
  timeout: 5m
  temporaryBudget: {{maxUnavailable: 25%}}
  concurrency: {{perNode: 2}}
"""

POOLS_EXAMPLE = f"""\
apiVersion: {NATIVE_VERSION}
kind: {NATIVE_KIND}
enabledStrategies: [ResourceOptimization, LoadBalancing]
maxReschedulePods: 50
pools:
  - name: batch
    nodeSelector: pool=batch
    enabledStrategies: [Consolidation]
    strategies:
      Consolidation: {{maxUtilization: 40, minNodes: 2}}
  - name: gpu
    nodeSelector: pool=gpu
    cpuThreshold: 95
    thresholds: {{nvidia.com/gpu: 90}}
    enabledStrategies: [ResourceOptimization]
"""

SCHEDULER_EXAMPLE = f"""\
apiVersion: {SCHEDULER_VERSIONS[0]}
kind: {SCHEDULER_KIND}
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: /etc/rescheduler/kubeconfig
profiles:
  - schedulerName: rescheduler-scheduler
    pluginConfig:
      - name: Rescheduler
        args:
          reschedulingInterval: 30s
          enabledStrategies: [LoadBalancing, ResourceOptimization, NodeMaintenance]
          cpuThreshold: 80.0
          memoryThreshold: 80.0
          imbalanceThreshold: 20.0
          maxReschedulePods: 10
          excludedNamespaces: [kube-system, kube-public]
"""

_BOUNDS = {
    "exclusiveMinimum": "above",
    "minimum": "at least",
    "x-minimum": "at least",  # of durations, which JSON schema cannot bound
    "exclusiveMaximum": "below",
    "maximum": "at most",
}

_RESTART_ONLY = " and ".join((", ".join(f"`{to_camel(each)}`" for each in RESTART_ONLY[:-1]), f"`{RESTART_ONLY[-1]}`"))

_OPENING = """\
`rescheduler run` uses all of it; read-only commands use the fields that decide which pods move where, and the
kubeconfig.
"""

_INTRODUCTION = f"""\
# Configuration

A configuration file is YAML or JSON, in one of two forms:

- **native**: `apiVersion: {NATIVE_VERSION}`, `kind: {NATIVE_KIND}`,
  with the fields below at the top level;
- **scheduler**: `kind: {SCHEDULER_KIND}`, `apiVersion` {" or ".join(f"`{version}`" for version in SCHEDULER_VERSIONS)},
  with the fields below, except `leaderElection` and `clientConnection`, in the `args` of the one `pluginConfig` named
  `Rescheduler`. Of the rest of the file, `leaderElection` and `clientConnection.kubeconfig` count (a
  `resourceName` of `kube-scheduler` does not: that Lease belongs to the scheduler); everything else is ignored.

Every field is optional, and `null` means not given. Unknown fields, wrong types and impossible values are errors; all
of them are reported at once, each with its path. Flags override the file. Durations are written as in Kubernetes:
`30s`, `1m30s`, `1.5h`. `rescheduler config check FILE` checks a file, `rescheduler config show --config FILE` prints
the effective configuration.

`rescheduler run` re-reads its file when it changes: a mounted ConfigMap (kubelet updates it in the pod within about a
minute, but never one that is mounted with `subPath`), or a file that is edited in place or replaced. Every replica
reads its own file every few seconds, and activates new content when two reads in a row agree. The leader then plans at
once, and drops a plan that it was making with the old configuration. Flags still override the file. A file that is
invalid, empty or missing is rejected as a whole. All its errors are in the log, in an Event (`ConfigurationRefused`, of
the controller's pod, or of its Lease if it runs outside of the cluster), on the page and in [metrics](metrics.md)
(`rescheduler_config_last_reload_successful`), and the active configuration stays. {_RESTART_ONLY} are read only at the
start: a change there waits for a restart. Log, Event (`ConfigurationAwaitsRestart`), page and metrics
(`rescheduler_config_awaits_restart`) name these fields. All other changes in the file are active at once.
"""


def json_schema(model: Model) -> dict[str, Any]:
    """The JSON schema of a model, with the descriptions of its fields."""
    schema = TypeAdapter(model).json_schema()
    schema["properties"] = {name: schema["properties"][name] for name in fields_by_name(model)}
    _describe(schema, model, schema.get("$defs", {}))
    return schema


def _describe(schema: dict[str, Any], model: Model, definitions: dict[str, Any]) -> None:
    for name, info in fields_by_name(model).items():
        described = {**schema["properties"][name], "description": info.description}
        schema["properties"][name] = dict(sorted(described.items()))  # the order of pydantic's own
        section = nested_model(info) or item_model(info)
        if section is not None:
            _describe(definitions[section.__name__], section, definitions)


def dump_defaults(model: Model) -> dict[str, object]:
    """The defaults of a model's fields as a file would give them; null where there are none."""
    if issubclass(model, BaseModel):
        return model.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
    blank = object.__new__(model)
    for each in fields(blank):  # type: ignore[arg-type] # every section is a dataclass
        made = each.default_factory() if each.default_factory is not MISSING else each.default
        object.__setattr__(blank, each.name, None if made is MISSING else made)
    data: dict[str, object] = TypeAdapter(model).dump_python(blank, mode="json", by_alias=True, warnings=False)
    return data


def configuration() -> str:
    """The page, with every strategy."""
    title, _, rest = reference_markdown(settings_by_name()).partition("\n")
    return f"{title}\n\n{_OPENING}{rest}"


def reference_markdown(known: Mapping[str, type[StrategySettings]]) -> str:
    """The whole reference: each section's fields, each strategy's settings, an example of each form."""
    parts = [_INTRODUCTION, "## Fields\n", _table(Fields, {})]
    parts += _sections(Fields, "##", "")
    parts += ["## strategies\n", _strategies_introduction()]
    for name, model in sorted(known.items()):
        inherited = {field: f"that of the field `{field}`" for field in INHERITED}
        # The base's docstring, which a class without its own would inherit, is meant for programmers.
        own_words = "" if model is StrategySettings else inspect.cleandoc(model.__dict__.get("__doc__") or "")
        table = _table(model, inherited) if fields_by_name(model) else "It has no settings.\n"
        parts += [f"### strategies.{name}\n", *([f"{own_words}\n"] if own_words else []), table]
        parts += _sections(model, "####", f"strategies.{name}.")
    parts += ["## Examples\n", "The native form:\n", f"```yaml\n{NATIVE_EXAMPLE}```\n"]
    parts += ["Node pools, one of which is packed for an autoscaler:\n", f"```yaml\n{POOLS_EXAMPLE}```\n"]
    parts += ["The scheduler form:\n", f"```yaml\n{SCHEDULER_EXAMPLE}```\n"]
    return "\n".join(parts)


def _sections(model: Model, heading: str, path: str) -> Iterator[str]:
    """The sections of a model, and theirs below them."""
    for name, info in fields_by_name(model).items():
        section, listed = nested_model(info), item_model(info)
        if (shown := section or listed) is not None:
            title = f"{path}{name}" if section else f"{path}{name}[]"
            yield from (f"{heading} {title}\n", f"{inspect.getdoc(shown)}\n", _table(shown, {}))
            yield from _sections(shown, f"{heading}#", f"{title}.")


def _strategies_introduction() -> str:
    fields = ", ".join(f"`{name}`" for name in INHERITED)
    return (
        "Settings of single strategies, such as `strategies: {LoadBalancing: {imbalanceThreshold: 30}}`. Where a\n"
        f"strategy has a setting of the same name as one of the fields {fields},\n"
        "that field is its default.\n"
    )


def _table(model: Model, inherited: Mapping[str, str]) -> str:
    schema, defaults = json_schema(model), dump_defaults(model)
    rows = ["| field | type | default | description |", "|---|---|---|---|"]
    for name, info in fields_by_name(model).items():
        default = inherited.get(name) or ("required" if info.is_required() else default_of(defaults[name]))
        kind = _type(schema["properties"][name], schema.get("$defs", {}))
        cells = (f"`{name}`", kind, default, " ".join((info.description or "").split()))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def default_of(value: object) -> str:
    """A default as a page shows it, made from the JSON of a model."""
    if value is None or isinstance(value, dict):
        return ""  # what is a section has defaults of its own; any other mapping is empty
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value) or "`[]`"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{value}`" if value and isinstance(value, str) else f"`{json.dumps(value)}`"


def _type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _type(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        kinds = [_type(option, definitions) for option in schema["anyOf"] if option.get("type") != "null"]
        return ", or ".join(kinds)
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_plural(_type(schema.get('items', {}), definitions))}"
    if schema.get("type") == "boolean":
        return "true or false"
    if schema.get("type") == "object":
        return "mapping"
    return ", ".join([str(schema.get("format") or schema.get("type", "any")), *_bounds(schema)])


def _plural(kind: str) -> str:
    return kind + "s" if kind.isalpha() else kind


def _bounds(schema: Mapping[str, Any]) -> list[str]:
    return [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema and schema[key] != "0s"]
