"""Mutating webhooks: which are called about a write, what they are sent, and what the answer does to the object.

`admission` calls `admit` after its own steps. Webhooks are called in the order of their configurations' names, over TLS
verified with their own CA, by URL. A webhook behind a Service cannot be called, because the embedded cluster has no
network for Services; it fails like one that is down. The failurePolicy decides what a failure does. No webhook is
called twice about one write (`reinvocationPolicy`).
"""

from __future__ import annotations

import base64
import binascii
import copy
import json
import logging
import ssl
import uuid
from collections.abc import Iterator
from functools import lru_cache

import aiohttp

from kubemini.api import Review
from kubemini.kinds import MUTATING_WEBHOOKS, NAMESPACE
from kubemini.patches import PatchFailed, apply_json_patch
from kubemini.refusals import Json, Refusal
from kubemini.selectors import is_empty, label_selector
from kubemini.store import Store
from rescheduler.cluster.tls import verifying_as_go

_log = logging.getLogger(__name__)
_USER = {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}
_LONGEST_QUOTE = 200
_INVALID = "received invalid webhook response:"


class WebhookFailed(Exception):  # noqa: N818  an outcome, which a policy decides about
    """A webhook could not be called, or gave no valid answer."""


class Webhooks:
    """All mutating webhooks of a cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def concern(self, review: Review) -> bool:
        """Whether any webhook would be called."""
        return any(True for _ in self._matching(review, review.body))

    async def admit(self, review: Review, body: Json) -> Json:
        """The object as webhooks change it; a Refusal if one of them denies it."""
        for hook in self._matching(review, body):
            try:
                body = _apply_answer(hook["name"], review, body, await self._call(hook, review, body))
            except WebhookFailed as failed:
                why = f'failed calling webhook "{hook["name"]}": {failed}'
                if hook["failurePolicy"] != "Ignore":
                    raise _internal(why) from failed
                _log.warning("%s; its failure policy lets the request through", why)
        return body

    def _matching(self, review: Review, body: Json) -> Iterator[Json]:
        if review.target.kind.group == MUTATING_WEBHOOKS.group:
            return  # else a broken webhook could not be taken away
        for entry in self._store.entries(MUTATING_WEBHOOKS):
            for hook in entry.object().get("webhooks", ()):
                if self._matches(hook, review, body):
                    yield hook

    def _matches(self, hook: Json, review: Review, body: Json) -> bool:
        if not any(_rule_matches(rule, review) for rule in hook.get("rules", ())):
            return False
        kind = review.target.kind
        if not is_empty(hook["namespaceSelector"]) and (kind.namespaced or kind == NAMESPACE):
            selector = label_selector(hook["namespaceSelector"])
            if selector is None or not selector.matches(self._namespace_labels(review, body)):
                return False
        if is_empty(hook["objectSelector"]):
            return True
        selector = label_selector(hook["objectSelector"])
        candidates = [each for each in (body, review.before) if each is not None]
        return selector is not None and any(selector.matches(each["metadata"].get("labels", {})) for each in candidates)

    def _namespace_labels(self, review: Review, body: Json) -> dict[str, str]:
        if review.target.kind == NAMESPACE and review.operation != "DELETE":
            labels: dict[str, str] = body["metadata"].get("labels", {})
            return labels
        name = review.target.name if review.target.kind == NAMESPACE else body["metadata"].get("namespace", "")
        entry = self._store.get(NAMESPACE, ("", name))
        return entry.labels if entry else {}

    async def _call(self, hook: Json, review: Review, body: Json) -> Json:
        """Call a webhook; the answer is the `response` of its AdmissionReview."""
        client, seconds = hook["clientConfig"], hook["timeoutSeconds"]
        if "url" not in client:
            raise WebhookFailed("failed to call webhook: the embedded cluster has no network for Services")
        request = _request(review, body)
        try:
            async with self._open_session().post(
                client["url"],
                params={"timeout": f"{seconds}s"},
                json={"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request},
                ssl=_trust(client.get("caBundle", "")),
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as response:
                text = await response.text()
                if response.status >= 300:
                    said = f'an error on the server ("{text[:_LONGEST_QUOTE]}")'
                    raise WebhookFailed(f"failed to call webhook: {said} has prevented the request from succeeding")
        except TimeoutError:
            raise WebhookFailed(f'failed to call webhook: Post "{client["url"]}": context deadline exceeded') from None
        except (aiohttp.ClientError, ssl.SSLError, UnicodeDecodeError) as error:
            raise WebhookFailed(f'failed to call webhook: Post "{client["url"]}": {error}') from error
        return _response_of(text, request["uid"])

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {"User-Agent": "kube-apiserver-admission", "Accept": "application/json, */*"}
            self._session = aiohttp.ClientSession(headers=headers)
        return self._session


def _rule_matches(rule: Json, review: Review) -> bool:
    kind, subresource = review.target.kind, review.target.subresource
    if rule["scope"] != "*" and (rule["scope"] == "Namespaced") != kind.namespaced:
        return False
    for key, wanted in (("operations", review.operation), ("apiGroups", kind.group), ("apiVersions", kind.version)):
        if "*" not in rule[key] and wanted not in rule[key]:
            return False
    for each in rule["resources"]:
        resource, _, sub = each.partition("/")
        if resource in ("*", kind.plural) and sub in ("*", subresource):
            return True
    return False


def _request(review: Review, body: Json) -> Json:
    """The `request` of an AdmissionReview, as the real API server sends it."""
    kind, target = review.target.kind, review.target
    group, _, version = body["apiVersion"].rpartition("/")
    shown = {"group": group, "version": version, "kind": body["kind"]}  # an Eviction, for `pods/eviction`
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    options: Json = {"kind": f"{review.operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}
    request: Json = {
        "uid": str(uuid.uuid4()),
        "kind": shown,
        "resource": resource,
        "requestKind": shown,
        "requestResource": resource,
        "operation": review.operation,
        "userInfo": _USER,
        "object": None if review.operation == "DELETE" else body,
        "oldObject": review.before,
        "dryRun": review.dry_run,
        "options": options | ({"dryRun": ["All"]} if review.dry_run else {}),
    }
    if target.subresource:
        request["subResource"] = request["requestSubResource"] = target.subresource
    if name := body["metadata"].get("name") or target.name:
        request["name"] = name
    if namespace := body["metadata"].get("namespace") or target.namespace:
        request["namespace"] = namespace
    return request


def _response_of(text: str, uid: str) -> Json:
    """The response in an answer, if it is a valid one to this request."""
    try:
        review = json.loads(text)
    except ValueError as error:
        raise WebhookFailed(f"failed to call webhook: couldn't get version/kind; json parse error: {error}") from None
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise WebhookFailed(f"{_INVALID} webhook response was absent")
    if response.get("uid") != uid:
        raise WebhookFailed(f'{_INVALID} expected response.uid="{uid}", got "{response.get("uid", "")}"')
    if (review.get("apiVersion"), review.get("kind")) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise WebhookFailed(f"{_INVALID} expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview")
    if bool(response.get("patch")) != bool(response.get("patchType")):
        raise WebhookFailed(f"{_INVALID} response.patch and response.patchType go together")
    if response.get("patchType", "JSONPatch") != "JSONPatch":
        raise WebhookFailed(f'unsupported patch type "{response["patchType"]}"')
    return response


def _apply_answer(name: str, review: Review, body: Json, response: Json) -> Json:
    """The object as an answer wants it."""
    if response.get("allowed") is not True:
        raise _denied(name, response.get("status") or {})
    operations = _operations(response["patch"]) if response.get("patch") else []
    if not operations:
        return body
    if review.operation == "DELETE":
        why = "attempted to modify the object, which is not supported for this operation"
        raise _internal(f'admission webhook "{name}" {why}')
    # No failure policy excuses a patch that does not fit the object.
    try:
        changed = apply_json_patch(operations, copy.deepcopy(body))
    except PatchFailed as failed:
        raise _internal(str(failed)) from failed
    for part in ("metadata", *(key for key in ("spec", "status") if key in changed)):
        if not isinstance(changed.get(part), dict):
            raise _internal(f'admission webhook "{name}" has patched away the {part} of the object')
    return changed


def _operations(patch: object) -> list[Json]:
    """The operations of a patch, which comes as base64 text."""
    try:
        operations = json.loads(base64.b64decode(str(patch), validate=True))
    except (binascii.Error, ValueError) as error:
        raise WebhookFailed(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise WebhookFailed("received undecodable patch in webhook response: it is no list of operations")
    return operations


def _denied(name: str, status: Json) -> Refusal:
    why = status.get("message") or status.get("reason")
    message = f'admission webhook "{name}" denied the request'
    message += f": {why}" if why else " without explanation"
    return Refusal(max(status.get("code") or 0, 400), status.get("reason", ""), message, status.get("details"))


def _internal(why: str) -> Refusal:
    return Refusal(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})


@lru_cache(maxsize=64)  # so that connections, which belong to a context, are kept
def _trust(bundle: str) -> ssl.SSLContext:
    """Trust the webhook's own authority alone; the machine's, where it names none."""
    try:
        trusted = base64.b64decode(bundle).decode() if bundle else None
        return verifying_as_go(ssl.create_default_context(cadata=trusted))
    except (ssl.SSLError, ValueError) as error:
        raise WebhookFailed(f"could not get REST client: unable to load root certificates: {error}") from None
