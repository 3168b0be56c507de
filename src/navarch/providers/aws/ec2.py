"""Calls to EC2, SQS and the price list: one client per region, one translation of errors."""

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from navarch.core.errors import OutcomeUnknownError, ProviderError, TransientError
from navarch.ports.offload import Offload
from navarch.providers.aws.refusals import refusal
from navarch.providers.aws.settings import AwsSettings

CALLS_AT_ONCE = 16
"""The most concurrent calls to AWS; further calls are queued."""

HOME = "us-east-1"
"""The region for calls that concern the whole account."""


class Ec2:
    """The EC2 API of one account, in every region.

    The client retries nothing: botocore's retries would hide a sold-out zone for many seconds,
    and the control plane decides about retries.
    """

    def __init__(self, offload: Offload, settings: AwsSettings) -> None:
        self._offload = offload
        self._settings = settings
        self._clients: dict[tuple[str, str], Any] = {}
        self._session: botocore.session.Session | None = None
        self._lock = threading.Lock()
        self._config = Config(
            connect_timeout=5,
            read_timeout=40,
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=CALLS_AT_ONCE,
            user_agent_appid="navarch",
        )

    async def read(
        self, region: str, operation: str, *, service: str = "ec2", **params: object
    ) -> Mapping[str, Any]:
        """Return the response to a call without side effects."""
        call = partial(self._call, region, operation, params, changes=False, service=service)
        return await self._offload.run(call)

    async def write(self, region: str, operation: str, **params: object) -> Mapping[str, Any]:
        """Return the response to a call that may have side effects."""
        return await self._offload.run(partial(self._call, region, operation, params, changes=True))

    async def pages(
        self, region: str, operation: str, key: str, *, service: str = "ec2", **params: object
    ) -> list[Any]:
        """Return the items under `key` of all pages, or raise; never a partial result."""
        found: list[Any] = []
        while True:
            answer = await self.read(region, operation, service=service, **params)
            found += answer.get(key, ())
            token = answer.get("NextToken")
            if not token:
                return found
            params = {**params, "NextToken": token}

    def _call(
        self,
        region: str,
        operation: str,
        params: Mapping[str, object],
        *,
        changes: bool,
        service: str = "ec2",
    ) -> Mapping[str, Any]:
        try:
            client = self._client(region, service)
        except BotoCoreError as error:
            raise refusal(error, operation, changes=False) from error
        try:
            answer: Mapping[str, Any] = getattr(client, operation)(**params)
        except ResponseParserError:
            # A proxy answered instead of AWS. Its text may contain the request: leave it out.
            lost = OutcomeUnknownError if changes else TransientError
            raise named(lost(f"{operation}: the response is not from AWS"), region) from None
        except (BotoCoreError, ClientError, OSError) as error:
            raise named(refusal(error, operation, changes=changes), region) from error
        return answer

    def _client(self, region: str, service: str) -> Any:  # noqa: ANN401 - made as botocore runs
        settings = self._settings
        with self._lock:
            if self._session is None:
                self._session = botocore.session.Session(profile=settings.profile or None)
                if settings.credentials_file:
                    file = settings.credentials_file
                    self._session.set_config_variable("credentials_file", file)
            if (region, service) not in self._clients:
                endpoint = settings.endpoint or None
                self._clients[region, service] = self._session.create_client(
                    service, region_name=region, endpoint_url=endpoint, config=self._config
                )
            return self._clients[region, service]


def named(error: ProviderError, region: str) -> ProviderError:
    """Return `error` with its region in front, since an account spans many."""
    return type(error)(f"{region}: {error}")
