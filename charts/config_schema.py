"""The JSON schema of the value `config`: our native configuration, as the models of `rescheduler.config` have it.

`value_schema` takes it into values.schema.json, so that helm refuses a wrong configuration before anything is
installed. It knows fields, types, bounds and names; what depends on several fields at once, only the controller knows,
which refuses such a file as a whole and says why.
"""

from __future__ import annotations

from typing import Any

from docs.generating.configuration import json_schema

from rescheduler.config.schema import NATIVE_KIND, NATIVE_VERSION, Fields
from rescheduler.strategies import settings_by_name

Schema = dict[str, Any]
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PATTERNS = {
    "duration": r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
    "percentage": r"^[0-9]{1,9}%$",
    "namespace": rf"^({_NAME})?$",
    "name": rf"^{_NAME}(\.{_NAME})*$",
    "https address": r"^(https://.+)?$",
    "http or https address": r"^(https?://.+)?$",
}
"""What a format of ours means; others, such as label selectors and time windows, no pattern can tell."""
_LEFT_OUT = ("title", "default", "format", "x-minimum")


def config_schema() -> tuple[Schema, Schema]:
    """The schema of `config`, and the definitions that it refers to."""
    definitions: Schema = {}
    root = _taken(json_schema(Fields), definitions)
    settings = {}
    for name, model in sorted(settings_by_name().items()):
        settings[name] = _taken(model.model_json_schema(), definitions)
    definitions["strategies"] = {"type": "object", "properties": settings, "additionalProperties": False}
    definitions["strategyNames"] = {"type": "array", "items": {"enum": sorted(settings)}}
    for place in (root, definitions["Pool"]):
        for field, named in (("strategies", "strategies"), ("enabledStrategies", "strategyNames")):
            described = place["properties"][field]["description"]
            place["properties"][field] = {"description": described, "$ref": f"#/$defs/{named}"}
    header = {"apiVersion": {"const": NATIVE_VERSION}, "kind": {"const": NATIVE_KIND}}
    root["properties"] = header | root["properties"]
    return root, definitions


def _taken(schema: Schema, definitions: Schema) -> Schema:
    """A model's schema in our words, with its definitions put beside the others."""
    for name, each in schema.pop("$defs", {}).items():
        definitions[name] = _plain(each)
    plain: Schema = _plain(schema)
    return plain


def _plain(schema: Any) -> Any:
    """Without what helm does not look at, and with patterns in the place of our formats."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept: Schema = {}
    for key, value in schema.items():
        if key == "properties":  # names of fields, which may be any word
            kept[key] = {name: _plain(each) for name, each in value.items()}
        elif key == "description":
            kept[key] = " ".join(value.split())
        elif key not in _LEFT_OUT:
            kept[key] = _plain(value)
    if "anyOf" in kept and {"type": "null"} not in kept["anyOf"]:  # what is not given, in `rescheduler config show`
        kept["anyOf"].append({"type": "null"})
    if pattern := _PATTERNS.get(schema.get("format", "")):
        kept["pattern"] = pattern
    return kept
