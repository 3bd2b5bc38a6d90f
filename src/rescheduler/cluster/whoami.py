"""Who we are to the API server, for what is written down with a name: who approved, who paused.

Asked by commands. An API server that cannot say (it is older than v1.28, or does not let us ask) is no error.
"""

from __future__ import annotations

import msgspec

from rescheduler.cluster.client import ApiClient, Request
from rescheduler.cluster.errors import ApiError

_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_CANNOT_SAY = frozenset({403, 404, 405})


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    user: _User = msgspec.field(name="userInfo", default_factory=_User)


class _Review(msgspec.Struct):
    status: _Status


async def own_name(client: ApiClient) -> str:
    """The user name that our credentials have there; empty where nobody can say."""
    body = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    try:
        answer = await client.send(Request("POST", _REVIEWS, {}, body, answers=_CANNOT_SAY))
        return msgspec.json.decode(answer, type=_Review).status.user.username
    except ApiError as error:
        if error.status not in _CANNOT_SAY:
            raise
        return ""
    except msgspec.MsgspecError:
        return ""  # something else answers there
