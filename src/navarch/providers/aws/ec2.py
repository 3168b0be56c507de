"""Calls to EC2, SQS and the price list: one client per region, one translation of errors."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import botocore.exceptions
import botocore.loaders
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from navarch.catalogue.images import aws_image
from navarch.core.errors import CredentialError, OutcomeUnknownError, ProviderError, TransientError
from navarch.ports.clock import Offload
from navarch.providers.aws.translation import refusal

CALLS_AT_ONCE = 16
"""The most concurrent calls to AWS; further calls are queued."""

HOME = "us-east-1"
"""The region for calls that concern the whole account."""

TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSettings:
    """One account, and how its machines are set up."""

    name: str = "aws"
    region: str = ""
    """The region of requests that name none."""
    regions: Sequence[str] = ()
    """The regions in which machines are bought and listed; if empty, every enabled region."""
    profile: str = ""
    credentials_file: str = ""
    image: str = ""
    """An AMI, or `resolve:ssm:` and a parameter that names one. If empty, AWS's GPU image."""
    images: Mapping[str, str] = field(default_factory=dict)
    """AMIs by region: each AMI exists in one region only."""
    subnets: Sequence[str] = ()
    security_groups: Sequence[str] = ()
    instance_profile: str = ""
    efa: bool | None = None
    """True: machines get all network cards of their type. None: only machines of gangs do."""
    root_gb: int = 0
    """The size of the root disk; if zero, the image's own."""
    machines_per_call: int = 1
    """The most machines of one call."""
    event_queue: str = ""
    """The URL of an SQS queue to which EventBridge sends EC2's events, if there is one."""
    endpoint: str = ""
    """The API's address, if not AWS's. The signature then distinguishes the regions."""

    def image_in(self, region: str, instance_type: str) -> str:
        """Return the image that a machine boots."""
        return self.images.get(region) or self.image or aws_image(instance_type)


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
                self._session = open_session(settings.profile, settings.credentials_file)
            if (region, service) not in self._clients:
                endpoint = settings.endpoint or None
                self._clients[region, service] = self._session.create_client(
                    service, region_name=region, endpoint_url=endpoint, config=self._config
                )
            return self._clients[region, service]


def open_session(
    profile: str | None = None, credentials_file: str | None = None
) -> botocore.session.Session:
    """Return a session; all sessions of a process share botocore's descriptions of services."""
    session = botocore.session.Session(profile=profile or None)
    if credentials_file:
        session.set_config_variable("credentials_file", credentials_file)
    # After that line, because reading the first variable reads the files.
    loader = read_descriptions(session.get_config_variable("data_path"))
    session.register_component("data_loader", loader)
    return session


@cache
def read_descriptions(data_path: str | None) -> botocore.loaders.Loader:
    """Return a loader that parses each description once, megabytes of JSON for EC2 alone."""
    return botocore.loaders.create_loader(data_path)


def named(error: ProviderError, region: str) -> ProviderError:
    """Return `error` with its region in front, since an account spans many."""
    return type(error)(f"{region}: {error}")


def who_am_i(
    *,
    profile: str | None = None,
    region: str | None = None,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    endpoint: str | None = None,
) -> str:
    """Return account and ARN; missing arguments are resolved as AWS's own tools do.

    Raises CredentialError or TransientError, with no part of a secret in either. Blocks.
    """
    timeouts = Config(
        connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S, retries={"total_max_attempts": 2}
    )
    try:
        session = open_session(profile)
        client = session.create_client(
            "sts",
            region_name=region or session.get_config_variable("region") or "us-east-1",
            endpoint_url=endpoint,
            aws_access_key_id=access_key_id,
            aws_secret_access_key=secret_access_key,
            config=timeouts,
        )
        found = client.get_caller_identity()
    except botocore.exceptions.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "refused")
        raise CredentialError(f"AWS does not accept these credentials ({code})") from None
    except botocore.exceptions.ProfileNotFound:
        raise CredentialError(
            f"there is no profile {profile}; create one with: aws configure"
        ) from None
    except botocore.exceptions.NoCredentialsError:
        raise CredentialError(
            "AWS's tools find no credentials: no environment, no profile, no instance role"
        ) from None
    except botocore.exceptions.BotoCoreError as error:
        raise TransientError(f"AWS cannot be reached: {type(error).__name__}") from None
    return f"account {found['Account']}, as {found['Arn']}"
