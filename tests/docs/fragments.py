"""What a YAML or JSON block of the documentation is, and what is wrong with it.

Whole objects are judged by their readers: configurations by our loader, plans by their decoder, those of other tools
by `rescheduler convert`, and Kubernetes' objects by a real API server in a dry run. A piece of a file is completed
first: a piece of a configuration, of the chart's values, of a pod's metadata, of RBAC rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from rescheduler.config.errors import ConfigErrors
from rescheduler.config.loader import load
from rescheduler.model.json import Json
from rescheduler.model.plan import PlanFormatError, decode_plan
from rescheduler.strategies import settings_by_name
from tests.docs.pages import ROOT
from tests.support.cli import rescheduler
from tests.testbed.api import ApiError
from tests.testbed.cluster import ControlPlane

CONVERTED = ("DeschedulerPolicy", "DeschedulerConfiguration")
CONFIGURATIONS = ("ReschedulerConfiguration", "KubeSchedulerConfiguration")
HEAD: Json = {"apiVersion": "rescheduler.io/v1alpha1", "kind": "ReschedulerConfiguration"}
OF_OTHERS = {
    "ServiceMonitor": "a kind of the Prometheus operator, which no test has",
    "PrometheusRule": "the same",
    "Cluster": "of the tool kind, which no test has",
}
"""Kinds that are only looked at by their form, and why."""
_RULE = frozenset(("apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"))
_POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "example"},
    "spec": {"containers": [{"name": "main", "image": "example.com/image:1"}]},
}


@dataclass(frozen=True, slots=True)
class Judge:
    """Says what is wrong with a document; `cluster` answers dry runs, and knows PodMigration."""

    cluster: ControlPlane

    def faults(self, text: str) -> Iterator[str]:
        """All that is wrong with a block, which may hold several documents."""
        try:
            documents = [each for each in yaml.safe_load_all(text) if each is not None]
        except yaml.YAMLError as error:
            yield f"does not parse: {error}"
            return
        if not documents:
            yield "is empty"
        for document in documents:
            if fault := self.fault(document):
                yield fault

    def fault(self, document: object) -> str:
        """What is wrong with one document; empty if nothing is."""
        if isinstance(document, list):
            return _rules(document)
        if not isinstance(document, dict):
            return "is neither an object nor a piece of one"
        kind = document.get("kind")
        if kind is None:
            return self._piece(document)
        if kind in CONFIGURATIONS:
            return _configuration(document)
        if kind in CONVERTED:
            ran = rescheduler("convert", "-f", "-", stdin=yaml.safe_dump(document))
            return "" if ran.code == 0 else ran.said
        if kind == "Plan":
            return _refused_by(PlanFormatError, lambda: decode_plan(yaml.safe_dump(document).encode()))
        if kind == "List":
            return next((fault for each in document["items"] if (fault := self.fault(each))), "")
        return self.object(document)

    def object(self, document: Json) -> str:
        """What a cluster says to an object."""
        kind, api_version = str(document["kind"]), str(document.get("apiVersion", ""))
        if kind in OF_OTHERS:
            return "" if api_version else f"{kind}: has no apiVersion"
        prefix = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        resource = self._resource(prefix, kind)
        if resource is None:
            return f"{api_version or 'no apiVersion'}, {kind}: the API server does not know this kind"
        if resource["namespaced"]:  # the page's own namespace need not exist here
            document = {**document, "metadata": {**document.get("metadata", {}), "namespace": "default"}}
            prefix += "/namespaces/default"
        path = f"{prefix}/{resource['name']}?dryRun=All&fieldValidation=Strict"
        try:
            self.cluster.api.post(path, document)
        except ApiError as error:
            return "" if error.reason == "AlreadyExists" else error.message
        return ""

    def _resource(self, prefix: str, kind: str) -> Json | None:
        """What the API server says of a kind; None where it has none of this name."""
        found = self.cluster.api.find(prefix) or {"resources": ()}
        return next((each for each in found["resources"] if each["kind"] == kind and "/" not in each["name"]), None)

    def _piece(self, document: Json) -> str:
        """A piece is fine if it completes to something sound."""
        if set(document) <= {"metadata", "spec"}:
            return self.object(_merged(_POD, document))
        if set(document) <= {"labels", "annotations"}:
            return self.object(_merged(_POD, {"metadata": document}))
        if set(document) <= _RULE:
            return _rules([document])
        as_values = of_values(document)
        if not as_values:
            return ""
        as_configuration = _configuration({**HEAD, **document})
        return f"{as_configuration}; nor is it of the chart's values: {as_values}" if as_configuration else ""


def _configuration(document: Json) -> str:
    text = yaml.safe_dump(document, sort_keys=False)
    return _refused_by(ConfigErrors, lambda: load(text, "the block", settings_by_name()))


def _refused_by(kind: type[Exception], read: Callable[[], object]) -> str:
    try:
        read()
    except kind as error:
        errors = getattr(error, "errors", None)
        return "; ".join(str(each) for each in errors) if errors else str(error)
    return ""


def _rules(rules: list[Any]) -> str:
    """Rules of RBAC must be among those that deploy/rbac.yaml grants."""
    for rule in rules:
        if not isinstance(rule, dict) or not {"apiGroups", "resources", "verbs"} <= set(rule) <= _RULE:
            return f"{rule} is neither an object nor a rule of RBAC"
        lacking = {
            (group, resource, verb)
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        } - granted()
        if lacking:
            return f"deploy/rbac.yaml does not grant {sorted(lacking)}"
    return ""


@cache
def granted() -> frozenset[tuple[str, str, str]]:
    """Every group, resource and verb that deploy/rbac.yaml grants."""
    text = (ROOT / "deploy" / "rbac.yaml").read_text(encoding="utf-8")
    return frozenset(
        (group, resource, verb)
        for document in yaml.safe_load_all(text)
        for rule in (document or {}).get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def of_values(document: Json) -> str:
    """What the chart's values do not have of this; empty if they have all of it."""
    files = sorted(ROOT.glob("charts/*/values.yaml"))
    if not files:
        return "there is no chart"
    values = yaml.safe_load(files[0].read_text(encoding="utf-8"))
    config = document.get("config", {})
    fault = _configuration({**HEAD, **config}) if isinstance(config, dict) else "config is no mapping"
    rest = {key: value for key, value in document.items() if key != "config"}
    return "; ".join([*([f"config: {fault}"] if fault else []), *_beyond(rest, values, "")])


def _beyond(given: Json, known: Json, path: str) -> Iterator[str]:
    for key, value in given.items():
        if key not in known:
            yield f"there is no {path}{key}"
        elif isinstance(value, dict) and isinstance(known[key], dict) and known[key]:
            yield from _beyond(value, known[key], f"{path}{key}.")


def _merged(below: Json, above: Json) -> Json:
    return {
        **below,
        **{
            key: _merged(below[key], value) if isinstance(value, dict) and isinstance(below.get(key), dict) else value
            for key, value in above.items()
        },
    }
