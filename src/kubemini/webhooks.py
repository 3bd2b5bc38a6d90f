"""Mutating webhooks: which are called about a new object, what they are sent, and what the answer does to the object.

`admission` calls `admit` after its own steps; webhooks are not called for changes and deletions. They are called in the
order of their configurations' names, over TLS verified with their own CA, by URL. One behind a Service cannot be
called, because the embedded cluster has no network for Services; it fails like one that is down. The failurePolicy
decides what a failure does. No webhook is called twice about one object (`reinvocationPolicy`).
"""

from __future__ import annotations

import base64
import copy
import json
import logging
import ssl
import uuid
from collections.abc import Iterator
from functools import lru_cache

import aiohttp

from kubemini.api import Creation
from kubemini.errors import Json, StatusError
from kubemini.kinds import MUTATING_WEBHOOKS, NAMESPACE, Kind
from kubemini.patches import PatchFailed, apply_json_patch
from kubemini.selectors import label_selector
from kubemini.store import Store
from rescheduler.kube.connection import verify_like_go

_log = logging.getLogger(__name__)
_USER = {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}
_LONGEST_QUOTE = 200


class WebhookFailed(Exception):  # noqa: N818  an outcome, which a policy decides about
    """A webhook could not be called, or gave no valid answer."""


class MutatingWebhooks:
    """All mutating webhooks of a cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def concern(self, creation: Creation) -> bool:
        """Whether any webhook would be called."""
        return any(True for _ in self._matching(creation.kind, creation.body))

    async def admit(self, creation: Creation, body: Json) -> Json:
        """The object as webhooks change it; a StatusError if one of them denies it."""
        for hook in self._matching(creation.kind, body):
            try:
                response = await self._call(hook, _request(creation, body))
                body = _apply_answer(hook["name"], body, response)
            except WebhookFailed as failed:
                why = f'failed calling webhook "{hook["name"]}": {failed}'
                if hook["failurePolicy"] != "Ignore":
                    raise _internal(why) from failed
                _log.warning("%s; its failure policy lets the request through", why)
        return body

    def _matching(self, kind: Kind, body: Json) -> Iterator[Json]:
        if kind == MUTATING_WEBHOOKS:
            return
        for entry in self._store.entries(MUTATING_WEBHOOKS):
            for hook in entry.object().get("webhooks", ()):
                if self._matches(hook, kind, body):
                    yield hook

    def _matches(self, hook: Json, kind: Kind, body: Json) -> bool:
        if not any(_rule_matches(rule, kind) for rule in hook.get("rules", ())):
            return False
        if kind.namespaced:
            namespace = self._store.get(NAMESPACE, ("", body["metadata"].get("namespace", "")))
            if not _selects(hook["namespaceSelector"], namespace.labels if namespace else {}):
                return False
        return _selects(hook["objectSelector"], body["metadata"].get("labels", {}))

    async def _call(self, hook: Json, request: Json) -> Json:
        """Call a webhook; the answer is the `response` of its AdmissionReview."""
        client, seconds = hook["clientConfig"], hook["timeoutSeconds"]
        if "url" not in client:
            raise WebhookFailed("failed to call webhook: the embedded cluster has no network for Services")
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
                    reason = f'an error on the server ("{text[:_LONGEST_QUOTE]}")'
                    raise WebhookFailed(f"failed to call webhook: {reason} has prevented the request from succeeding")
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


def _rule_matches(rule: Json, kind: Kind) -> bool:
    if rule["scope"] != "*" and (rule["scope"] == "Namespaced") != kind.namespaced:
        return False
    about = {"operations": "CREATE", "apiGroups": kind.group, "apiVersions": kind.version, "resources": kind.plural}
    return all("*" in rule[key] or wanted in rule[key] for key, wanted in about.items())


def _selects(selector: Json, labels: dict[str, str]) -> bool:
    found = label_selector(selector)
    return found is not None and found.matches(labels)


def _request(creation: Creation, body: Json) -> Json:
    """The `request` of an AdmissionReview, as the real API server sends it."""
    kind, metadata = creation.kind, body["metadata"]
    shown = {"group": kind.group, "version": kind.version, "kind": kind.name}
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    dry_run = {"dryRun": ["All"]} if creation.dry_run else {}
    request = {
        "uid": str(uuid.uuid4()),
        "kind": shown,
        "resource": resource,
        "requestKind": shown,
        "requestResource": resource,
        "operation": "CREATE",
        "userInfo": _USER,
        "object": body,
        "oldObject": None,
        "dryRun": creation.dry_run,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"} | dry_run,
    }
    return request | {key: metadata[key] for key in ("name", "namespace") if metadata.get(key)}


def _response_of(text: str, uid: str) -> Json:
    """The response in an answer, if it is a valid one to this request."""
    try:
        review = json.loads(text)
        response: Json = review["response"]
        is_sound = (
            (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
            and response["uid"] == uid
            and bool(response.get("patch")) == bool(response.get("patchType"))
            and response.get("patchType", "JSONPatch") == "JSONPatch"
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise WebhookFailed(f"received invalid webhook response: {type(error).__name__}: {error}") from None
    if not is_sound:
        raise WebhookFailed(f"received invalid webhook response: {text[:_LONGEST_QUOTE]}")
    return response


def _apply_answer(name: str, body: Json, response: Json) -> Json:
    """The object after the patch of a response."""
    if response.get("allowed") is not True:
        raise _denied(name, response.get("status") or {})
    if not response.get("patch"):
        return body
    try:
        operations = json.loads(base64.b64decode(str(response["patch"]), validate=True))
    except ValueError as error:
        raise WebhookFailed(f"received undecodable patch in webhook response: {error}") from None
    # No failure policy excuses a patch that does not fit the object.
    try:
        changed = apply_json_patch(operations, copy.deepcopy(body))
    except PatchFailed as failed:
        raise _internal(str(failed)) from failed
    for part in ("metadata", *(key for key in ("spec", "status") if key in changed)):
        if not isinstance(changed.get(part), dict):
            raise _internal(f'admission webhook "{name}" has patched away the {part} of the object')
    return changed


def _denied(name: str, status: Json) -> StatusError:
    why = status.get("message") or status.get("reason")
    message = f'admission webhook "{name}" denied the request'
    message += f": {why}" if why else " without explanation"
    return StatusError(max(status.get("code") or 0, 400), status.get("reason", ""), message, status.get("details"))


def _internal(why: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})


@lru_cache(maxsize=64)  # so that connections, which belong to a context, are kept
def _trust(bundle: str) -> ssl.SSLContext:
    """Trust the webhook's own authority alone; the machine's, where it names none."""
    try:
        trusted = base64.b64decode(bundle).decode() if bundle else None
        return verify_like_go(ssl.create_default_context(cadata=trusted))
    except (ssl.SSLError, ValueError) as error:
        raise WebhookFailed(f"could not get REST client: unable to load root certificates: {error}") from None
