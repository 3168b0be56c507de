"""An account at Lambda: calls with its key, at the pace it allows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from navarch.core.errors import (
    CredentialError,
    OutcomeUnknownError,
    ProviderError,
    TransientError,
)
from navarch.ports.clock import Clock
from navarch.ports.offload import Offload
from navarch.providers.http import Answer, NoAnswerError, NotSentError, call
from navarch.providers.lambdalabs.refusals import TOO_MANY, refusal
from navarch.providers.pace import Pace, turn

ENDPOINT = "https://cloud.lambda.ai/api/v1"

SLACK_S = 0.1
"""Calls that leave at an even pace arrive at an uneven one, and it is their arrival that counts."""

CALL_EVERY_S = 1.0 + SLACK_S
LAUNCH_EVERY_S = 12.0 + SLACK_S
"""What Lambda allows an account, whatever the number of its keys' users: a call a second, and a
launch every twelve."""

CALL_PATIENCE_S = 15.0
LAUNCH_PATIENCE_S = 26.0
"""So that the longest wait for a turn, with the calls before and after it, still fits into the
minute that a provider is given to answer."""

ANSWER_S = 15.0

Json = Any
"""What a server sends may be anything; it is read with care."""


class _Listing(msgspec.Struct):
    data: list[msgspec.Raw]


_LISTINGS = msgspec.json.Decoder(_Listing)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Paces:
    """The two limits of one account. Everybody who uses the account shares them."""

    calls: Pace
    launches: Pace


def lambda_paces(now_s: float) -> Paces:
    """Return the paces of an account that somebody may have used until now.

    Only the server that leads calls Lambda, so its paces need not be shared. But whoever begins to
    lead does not know what the one before it did last, and lets each limit pass once.
    """
    paces = Paces(
        calls=Pace(CALL_EVERY_S, CALL_PATIENCE_S, "calls to Lambda"),
        launches=Pace(LAUNCH_EVERY_S, LAUNCH_PATIENCE_S, "launches at Lambda"),
    )
    for pace in (paces.calls, paces.launches):
        pace.hold(now_s + pace.interval_s)
    return paces


class LambdaAccount:
    """Makes calls with one key. Its errors never hold the key."""

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        paces: Paces,
        *,
        api_key: str,
        endpoint: str = ENDPOINT,
        within_s: float = ANSWER_S,
    ) -> None:
        self._clock = clock
        self._offload = offload
        self._paces = paces
        self._endpoint = endpoint.rstrip("/")
        self._within_s = within_s
        self._headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "navarch",
        }
        self.use_key(api_key)

    def use_key(self, api_key: str) -> None:
        """Make calls with this key from now on. The account is the same, and so are its limits."""
        self._key = api_key
        self._headers = {**self._headers, "Authorization": f"Bearer {api_key}"}

    async def instances(self) -> Sequence[msgspec.Raw]:
        """Return every machine of the account, unread. Lambda does not page."""
        await turn(self._clock, self._paces.calls)
        answer = await self._answer("GET", "/instances")
        try:
            return _LISTINGS.decode(answer.body).data
        except (ValueError, RecursionError) as error:
            raise TransientError("instances: not what Lambda's API describes") from error

    async def instance_types(self) -> Mapping[str, Json]:
        """Return what is sold, for how much, and where it can be had now."""
        found = await self._get("/instance-types")
        if not isinstance(found, dict):
            raise TransientError("instance types: not what Lambda's API describes")
        return found

    async def ssh_keys(self) -> Sequence[Json]:
        """Return the keys that the account knows."""
        return _a_list(await self._get("/ssh-keys"), "SSH keys")

    async def add_ssh_key(self, name: str, public_key: str) -> None:
        """Make a public key known to the account."""
        await self._post("/ssh-keys", {"name": name, "public_key": public_key})

    async def launch(self, body: Mapping[str, Json]) -> Json:
        """Start a machine; its turn may be a while off."""
        await turn(self._clock, self._paces.calls, self._paces.launches)
        return await self._call("POST", "/instance-operations/launch", body)

    async def terminate(self, instance: str) -> Json:
        """End a machine."""
        return await self._post("/instance-operations/terminate", {"instance_ids": [instance]})

    async def restart(self, instance: str) -> Json:
        """Restart a machine."""
        return await self._post("/instance-operations/restart", {"instance_ids": [instance]})

    async def _get(self, path: str) -> Json:
        await turn(self._clock, self._paces.calls)
        return await self._call("GET", path)

    async def _post(self, path: str, body: Mapping[str, Json]) -> Json:
        await turn(self._clock, self._paces.calls)
        return await self._call("POST", path, body)

    async def _call(self, method: str, path: str, body: Mapping[str, Json] | None = None) -> Json:
        """Make a call whose turn it is; return what its answer holds."""
        answer = await self._answer(method, path, body)
        try:
            return json.loads(answer.body)["data"]
        except (ValueError, KeyError, TypeError) as error:
            what = f"{method} {path}: an answer that makes no sense"
            raise _lost(what, changes=body is not None) from error

    async def _answer(
        self, method: str, path: str, body: Mapping[str, Json] | None = None
    ) -> Answer:
        """Make a call whose turn it is; return the answer if it is a yes."""
        what = f"{method} {path}"
        if not self._key.isascii() or not self._key.isprintable():
            raise CredentialError(f"{what}: the API key holds a character that cannot be sent")
        changes = body is not None
        content = None if body is None else json.dumps(body).encode()
        try:
            answer = await self._offload.run(
                lambda: call(
                    method,
                    self._endpoint + path,
                    headers=self._headers,
                    body=content,
                    within_s=self._within_s,
                )
            )
        except NotSentError as error:
            raise TransientError(f"{what}: {error}") from error
        except NoAnswerError as error:
            raise _lost(f"{what}: {error}", changes=changes) from error
        if answer.status == TOO_MANY:
            self._hold(path, answer)
        if not 200 <= answer.status < 300:
            raise refusal(what, self._without_key(answer), changes=changes)
        return answer

    def _without_key(self, answer: Answer) -> Answer:
        """Return an answer that may be quoted: a server may repeat what it does not accept."""
        key = self._key
        # In its JSON a server may write some characters of the key in another way.
        ways = {key, json.dumps(key)[1:-1], quote(key), quote(key, safe="")} - {""}
        body, headers = answer.body, dict(answer.headers)
        for way in sorted(ways, key=len, reverse=True):
            body = body.replace(way.encode(), b"[key]")
            headers = {name: value.replace(way, "[key]") for name, value in headers.items()}
        return Answer(status=answer.status, headers=headers, body=body)

    def _hold(self, path: str, answer: Answer) -> None:
        """Slow down: somebody else uses the account too, or an earlier life of ours did."""
        launching = path.endswith("/launch")
        pace = self._paces.launches if launching else self._paces.calls
        asked = answer.headers.get("retry-after", "")
        seconds = float(asked) if asked.isdecimal() else pace.interval_s
        pace.hold(self._clock.monotonic() + seconds)


def _lost(words: str, *, changes: bool) -> ProviderError:
    return OutcomeUnknownError(words) if changes else TransientError(words)


def _a_list(found: Json, what: str) -> Sequence[Json]:
    if not isinstance(found, list):
        raise TransientError(f"{what}: not what Lambda's API describes")
    return found
