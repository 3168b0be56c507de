"""The Lambda API of one account, within its rate limits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from navarch.core.errors import (
    CredentialError,
    OutcomeUnknownError,
    ProviderError,
    TransientError,
)
from navarch.http.blocking import request
from navarch.http.message import NoResponseError, NotSentError, Response
from navarch.ports.clock import Clock, Offload
from navarch.providers.lambdalabs.refusals import TOO_MANY, refusal
from navarch.providers.rate_limit import RateLimit, acquire

ENDPOINT = "https://cloud.lambda.ai/api/v1"

SLACK_S = 0.1
"""A margin for varying network delay: Lambda counts calls as they arrive."""

CALL_EVERY_S = 1.0 + SLACK_S
LAUNCH_EVERY_S = 12.0 + SLACK_S
"""Lambda's limits per account, across all keys: one call a second, one launch every twelve."""

CALL_WAIT_S_MAX = 15.0
LAUNCH_WAIT_S_MAX = 26.0
"""The longest wait for a slot, with the calls before and after it, must fit into the minute that
the control plane gives a provider call."""

RESPONSE_S = 15.0
LAUNCH = "/instance-operations/launch"

Json = Any
"""Untyped JSON of a server."""


class _Listing(msgspec.Struct):
    data: list[msgspec.Raw]


_LISTINGS = msgspec.json.Decoder(_Listing)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RateLimits:
    """The two limits of one account, shared by all of its providers."""

    calls: RateLimit
    launches: RateLimit


def lambda_rate_limits(now_s: float) -> RateLimits:
    """Return the rate limits of an account with unknown earlier calls.

    Only the leader calls Lambda, so servers need not share limits. A new leader does not know
    the last calls of its predecessor, so each limit starts with one interval without calls.
    """
    limits = RateLimits(
        calls=RateLimit(CALL_EVERY_S, CALL_WAIT_S_MAX, "calls to Lambda"),
        launches=RateLimit(LAUNCH_EVERY_S, LAUNCH_WAIT_S_MAX, "launches at Lambda"),
    )
    for limit in (limits.calls, limits.launches):
        limit.hold(now_s + limit.interval_s)
    return limits


class LambdaAccount:
    """Calls with one API key. Errors never contain the key."""

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        limits: RateLimits,
        *,
        api_key: str,
        endpoint: str = ENDPOINT,
        within_s: float = RESPONSE_S,
    ) -> None:
        self._clock = clock
        self._offload = offload
        self._limits = limits
        self._endpoint = endpoint.rstrip("/")
        self._within_s = within_s
        self._headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "navarch",
        }
        self.use_key(api_key)

    def use_key(self, api_key: str) -> None:
        """Use this key from now on. It is a key of the same account, with the same limits."""
        self._key = api_key
        self._headers = {**self._headers, "Authorization": f"Bearer {api_key}"}

    async def instances(self) -> Sequence[msgspec.Raw]:
        """Return every machine of the account, not parsed. Lambda does not page."""
        response = await self._response("GET", "/instances")
        try:
            return _LISTINGS.decode(response.body).data
        except (ValueError, RecursionError) as error:
            raise TransientError("instances: not what Lambda's API describes") from error

    async def instance_types(self) -> Mapping[str, Json]:
        """Return the machine types, with prices and the regions that have stock."""
        found = await self._call("GET", "/instance-types")
        if not isinstance(found, dict):
            raise TransientError("instance types: not what Lambda's API describes")
        return found

    async def ssh_keys(self) -> Sequence[Json]:
        """Return the SSH keys of the account."""
        found = await self._call("GET", "/ssh-keys")
        if not isinstance(found, list):
            raise TransientError("SSH keys: not what Lambda's API describes")
        return found

    async def add_ssh_key(self, name: str, public_key: str) -> None:
        """Register a public key."""
        await self._call("POST", "/ssh-keys", {"name": name, "public_key": public_key})

    async def launch(self, body: Mapping[str, Json]) -> Json:
        """Start a machine. The launch limit may delay the call."""
        return await self._call("POST", LAUNCH, body)

    async def operate(self, operation: str, instance: str) -> Json:
        """Terminate or restart a machine."""
        body = {"instance_ids": [instance]}
        return await self._call("POST", f"/instance-operations/{operation}", body)

    async def _call(self, method: str, path: str, body: Mapping[str, Json] | None = None) -> Json:
        """Make a call within the limits; return the response's data."""
        response = await self._response(method, path, body)
        try:
            return json.loads(response.body)["data"]
        except (ValueError, KeyError, TypeError) as error:
            what = f"{method} {path}: the response cannot be read"
            raise _lost(what, changes=body is not None) from error

    async def _response(
        self, method: str, path: str, body: Mapping[str, Json] | None = None
    ) -> Response:
        """Make a call within the limits; return a successful response."""
        limits = [self._limits.calls]
        if path == LAUNCH:
            limits.append(self._limits.launches)
        await acquire(self._clock, *limits)
        what = f"{method} {path}"
        if not self._key.isascii() or not self._key.isprintable():
            raise CredentialError(f"{what}: the API key holds a character that cannot be sent")
        changes = body is not None
        content = None if body is None else json.dumps(body).encode()
        try:
            response = await self._offload.run(
                partial(
                    request,
                    method,
                    self._endpoint + path,
                    headers=self._headers,
                    body=content,
                    timeout_s=self._within_s,
                )
            )
        except NotSentError as error:
            raise TransientError(f"{what}: {error}") from error
        except NoResponseError as error:
            raise _lost(f"{what}: {error}", changes=changes) from error
        if response.status == TOO_MANY:
            # Slow down: another user of the account has used up the limit.
            retry_after = response.headers.get("retry-after", "")
            seconds = float(retry_after) if retry_after.isdecimal() else limits[-1].interval_s
            limits[-1].hold(self._clock.monotonic() + seconds)
        if not 200 <= response.status < 300:
            raise refusal(what, self._without_key(response), changes=changes)
        return response

    def _without_key(self, response: Response) -> Response:
        """Return the response without the key: a server may repeat what it rejects."""
        key = self._key
        # A server may escape some characters of the key.
        forms = {key, json.dumps(key)[1:-1], quote(key), quote(key, safe="")} - {""}
        body, headers = response.body, dict(response.headers)
        for form in sorted(forms, key=len, reverse=True):
            body = body.replace(form.encode(), b"[key]")
            headers = {name: value.replace(form, "[key]") for name, value in headers.items()}
        return Response(status=response.status, headers=headers, body=body)


def _lost(text: str, *, changes: bool) -> ProviderError:
    return OutcomeUnknownError(text) if changes else TransientError(text)
