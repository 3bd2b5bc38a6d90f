"""The rules for MutatingWebhookConfigurations, as objects. `kubemini.webhooks` calls those they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import duplicate, each_wrong, not_allowed, required, unsupported, wrong
from kubemini.rules.selectors import selector_faults
from kubemini.rules.typed import TypedRules

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_CHOICES = (
    ("failurePolicy", ("Fail", "Ignore")),
    ("matchPolicy", ("Equivalent", "Exact")),
    ("reinvocationPolicy", ("IfNeeded", "Never")),
)
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_URL_FORM = "; desired format: https://host[/path]"


class WebhookConfigurationRules(TypedRules):
    """What holds for MutatingWebhookConfigurations."""

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        for hook in body.get("webhooks", ()):
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            hook.setdefault("reinvocationPolicy", "Never")
            if "service" in hook["clientConfig"]:
                hook["clientConfig"]["service"].setdefault("port", 443)
            for rule in hook.get("rules", ()):
                rule.setdefault("scope", "*")

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a configuration."""
        found: list[Fault] = []
        seen: set[str] = set()
        for number, hook in enumerate(body.get("webhooks", ())):
            path = f"webhooks[{number}]"
            found += _hook_faults(path, hook)
            if hook["name"] in seen:
                found.append(duplicate(f"{path}.name", hook["name"]))
            seen.add(hook["name"])
        return found


def _hook_faults(path: str, hook: Json) -> Iterator[Fault]:
    if not hook["name"]:
        yield required(f"{path}.name")
    else:
        yield from each_wrong(f"{path}.name", hook["name"], names.fully_qualified(hook["name"]))
    for number, rule in enumerate(hook.get("rules", ())):
        yield from _rule_faults(f"{path}.rules[{number}]", rule)
    for key, allowed in _CHOICES:
        if hook[key] not in allowed:
            yield unsupported(f"{path}.{key}", hook[key], allowed)
    if hook["sideEffects"] is None:
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif hook["sideEffects"] not in _SIDE_EFFECTS:
        yield unsupported(f"{path}.sideEffects", hook["sideEffects"], _SIDE_EFFECTS)
    if not 1 <= hook["timeoutSeconds"] <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        yield wrong(f"{path}.timeoutSeconds", hook["timeoutSeconds"], why)
    for key in ("namespaceSelector", "objectSelector"):
        yield from selector_faults(f"{path}.{key}", hook[key])
    yield from _client_faults(f"{path}.clientConfig", hook["clientConfig"])
    yield from _version_faults(f"{path}.admissionReviewVersions", hook["admissionReviewVersions"] or [])
    if hook.get("matchConditions"):
        # The embedded cluster has no CEL. To take such a webhook and to call it for everything would be worse.
        yield not_allowed(f"{path}.matchConditions", "the embedded cluster does not evaluate match conditions")


def _client_faults(path: str, client: Json) -> Iterator[Fault]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None and (_BAD_ESCAPE.search(url) or not url.isprintable()):
        yield required(f"{path}.url", f'url must be a valid URL: parse "{url}": invalid URL escape{_URL_FORM}')
    elif url is not None:
        parts = urlsplit(url)
        if parts.scheme != "https":
            yield wrong(f"{path}.url", parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
        if not parts.netloc:
            yield wrong(f"{path}.url", "", f"host must be specified{_URL_FORM}")
        for value, what in (
            (parts.username, "user information is"),
            (parts.fragment, "fragments are"),
            (parts.query, "query parameters are"),
        ):
            if value:
                yield wrong(f"{path}.url", value, f"{what} not permitted in the URL")
    elif service is not None:
        for key, seen_as in (("name", "namespace"), ("namespace", "name")):  # the real one mixes them up
            if not service[key]:
                yield required(f"{path}.service.{seen_as}")
        if details := names.port_number(service["port"]):
            yield wrong(f"{path}.service.port", service["port"], f"port is not valid: {', '.join(details)}")
        if not service.get("path", "/").startswith("/") and service["path"]:
            yield wrong(f"{path}.service.path", service["path"], "must start with a '/'")


def _rule_faults(path: str, rule: Json) -> Iterator[Fault]:
    operations = rule.get("operations", [])
    if not operations:
        yield required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        yield wrong(f"{path}.operations", operations, "if '*' is present, must not specify other operations")
    for number, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield unsupported(f"{path}.operations[{number}]", operation, _OPERATIONS)
    for key, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        listed = rule.get(key, [])
        if not listed:
            yield required(f"{path}.{key}")
        if len(listed) > 1 and "*" in listed:
            yield wrong(f"{path}.{key}", listed, f"if '*' is present, must not specify other {what}")
    for number, version in enumerate(rule.get("apiVersions", ())):
        if not version:
            yield required(f"{path}.apiVersions[{number}]")
    yield from _resource_faults(f"{path}.resources", rule.get("resources", []))
    if rule["scope"] not in ("*", "Cluster", "Namespaced"):
        yield unsupported(f"{path}.scope", rule["scope"], ("*", "Cluster", "Namespaced"))


def _resource_faults(path: str, resources: list[str]) -> Iterator[Fault]:
    if not resources:
        yield required(path)
    all_of: set[str] = set()
    same_of_all: set[str] = set()
    for number, each in enumerate(resources):
        if not each:
            yield required(f"{path}[{number}]")
        resource, slash, sub = each.partition("/")
        if not slash:
            continue
        if resource in all_of:
            yield wrong(f"{path}[{number}]", each, f"if '{resource}/*' is present, must not specify {each}")
        if sub in same_of_all:
            yield wrong(f"{path}[{number}]", each, f"if '*/{sub}' is present, must not specify {each}")
        if sub == "*":
            all_of.add(resource)
        if resource == "*":
            same_of_all.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        yield wrong(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and any("/" not in each and each != "*" for each in resources):
        why = "if '*' is present, must not specify other resources without subresources"
        yield wrong(path, resources, why)


def _version_faults(path: str, versions: list[str]) -> Iterator[Fault]:
    if not versions:
        yield required(path, "must specify one of v1, v1beta1")
        return
    for number, version in enumerate(versions):
        if version in versions[:number]:
            yield wrong(f"{path}[{number}]", version, "duplicate version")
        else:
            yield from each_wrong(f"{path}[{number}]", version, names.label_1035(version))
    if "v1" not in versions:  # the real one also speaks v1beta1, which nobody has asked of us
        yield wrong(path, versions, "must include at least one of v1, v1beta1")
