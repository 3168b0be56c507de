"""The Docker provider: one container per machine, named after the launch's token."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from navarch.core.errors import (
    CredentialError,
    InstanceNotFoundError,
    InvalidError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName, Token
from navarch.core.instance import Instance, InstanceCheck, InstanceHealth, InstanceStatus
from navarch.core.ownership import CLUSTER, TOKEN
from navarch.http.message import Endpoint, NoResponseError, NotSentError, Response
from navarch.http.pool import ConnectionPool
from navarch.ports.provider import ProvisionRequest

VERSION = "v1.41"
"""The oldest API version with every call used here; newer engines still support it."""
DEFAULT_HOST = "unix:///var/run/docker.sock"

_HEADERS = {"Connection": "close", "Content-Type": "application/json"}


class Engine:
    """The API of one engine."""

    def __init__(self, connections: ConnectionPool, where: str) -> None:
        self._connections = connections
        self.where = where

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Response:
        """Make one request and return the response, whatever its status.

        Raises TransientError if the engine cannot be reached, CredentialError if access is
        denied, and OutcomeUnknownError if the response is lost.
        """
        content = b"" if body is None else msgspec.json.encode(body)
        try:
            return await self._connections.request(
                method, target(path, query), headers=_HEADERS, body=content
            )
        except NotSentError as error:
            if isinstance(error.__cause__, PermissionError):
                raise CredentialError(
                    f"{self.where}: permission denied; join the group of the socket (docker)"
                ) from error
            raise TransientError(f"no Docker engine at {self.where}: {error}") from error
        except NoResponseError as error:
            raise OutcomeUnknownError(f"no response from the Docker engine: {error}") from error


def engine_at(host: str) -> Engine:
    """Return the engine at an address in DOCKER_HOST's format; raise InvalidError for others."""
    parts = urlsplit(host)
    if parts.scheme == "unix":
        return Engine(ConnectionPool(Endpoint(host="docker", socket=parts.path)), host)
    if parts.scheme in ("tcp", "http") and parts.hostname and parts.port:
        return Engine(ConnectionPool(Endpoint(host=parts.hostname, port=parts.port)), host)
    raise InvalidError(
        f"{host!r} is no engine address; write unix:///var/run/docker.sock or tcp://HOST:PORT"
    )


def target(path: str, query: Mapping[str, str] | None) -> str:
    """Return the request target: versioned path and query."""
    return f"/{VERSION}{path}" + (f"?{urlencode(query)}" if query else "")


def error_message(response: Response) -> str:
    """Return the error message of a failed request."""
    try:
        return str(msgspec.json.decode(response.body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return response.body.decode(errors="replace").strip()[:300]


def decode(response: Response) -> Any:  # noqa: ANN401 - the engine's own structures
    """Return the decoded body of a response."""
    try:
        return msgspec.json.decode(response.body)
    except msgspec.DecodeError as error:
        raise OutcomeUnknownError(f"the engine's response is not JSON: {error}") from error


OURS = "dev.navarch."
"""The prefix of the provider's own labels; other labels are the machine's."""
PROVIDER, KIND, REGION, ZONE = (f"{OURS}{word}" for word in ("provider", "kind", "region", "zone"))

_STATUSES = {
    "created": InstanceStatus.PENDING,
    "restarting": InstanceStatus.PENDING,
    "running": InstanceStatus.RUNNING,
    "paused": InstanceStatus.RUNNING,
    "removing": InstanceStatus.TERMINATING,
    "exited": InstanceStatus.TERMINATED,
    "dead": InstanceStatus.TERMINATED,
}


_HEALTH = {
    "created": InstanceHealth.INITIALIZING,
    "restarting": InstanceHealth.INITIALIZING,
    "running": InstanceHealth.OK,
    # A paused container continues where it was once it is resumed.
    "paused": InstanceHealth.OK,
    "removing": InstanceHealth.TERMINATED,
    "exited": InstanceHealth.TERMINATED,
    "dead": InstanceHealth.TERMINATED,
}


class _Endpoint(msgspec.Struct):
    ip_address: str = msgspec.field(default="", name="IPAddress")


class _Networks(msgspec.Struct, rename="pascal"):
    networks: dict[str, _Endpoint] | None = None


class _Listed(msgspec.Struct, rename="pascal"):
    """The fields of a listed container that the provider reads."""

    id: str
    state: str
    created: int
    labels: dict[str, str] | None = None
    network_settings: _Networks | None = None


_LISTINGS = msgspec.json.Decoder(list[_Listed])


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """The settings of every container."""

    image: str
    network: str = "bridge"
    command: tuple[str, ...] = ("navarch", "agent")
    simulated_gpus: int = 0
    real_gpus: bool = False
    """True if a container gets all GPUs of the engine's machine."""
    environment: Callable[[ProvisionRequest], Mapping[str, str]] = lambda _: {}
    """The agent's environment: the control plane's address and the node's id."""


class Docker:
    """The containers of one engine. Containers without this provider's label are ignored."""

    listing_lag = timedelta(0)
    """An engine lists a container as soon as it exists."""
    buys_once_per_token = True
    """The token determines the container's name, and names are unique."""

    def __init__(self, engine: Engine, containers: Containers, *, name: str = "docker") -> None:
        self.name = name
        self._engine = engine
        self._containers = containers

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Create and start a container, or start the one that this token created."""
        if request.spot or request.reservation:
            raise RejectedError("containers are neither spot nor reserved")
        name = container_name(request)
        response = await self._engine.request(
            "POST", "/containers/create", query={"name": name}, body=self._description(request)
        )
        if response.status not in (201, 409):
            raise _refusal(response, "create")
        container = await self._inspect(name)
        if container is None:
            raise OutcomeUnknownError(f"container {name} vanished while it was created")
        if container["Config"]["Labels"].get(TOKEN, "") != request.labels.get(TOKEN, ""):
            raise RejectedError(f"the name {name} is taken by an unrelated container; remove it")
        if container["State"]["Status"] in ("created", "exited"):
            started = await self._engine.request("POST", f"{_path(container['Id'])}/start")
            if started.status not in (204, 304):
                # It exists and will never run: a listing must not report it as a machine.
                await self._remove(container["Id"])
                raise _refusal(started, "start")
            container = await self._inspect(container["Id"])
            if container is None:
                raise TransientError(f"container {name} ended at once; see the engine's log")
        networks = container["NetworkSettings"].get("Networks") or {}
        return self._instance(
            container["Id"],
            container["State"]["Status"],
            container["Config"]["Labels"],
            datetime.fromisoformat(container["Created"][:19] + "+00:00"),
            [each.get("IPAddress") or "" for each in networks.values()],
        )

    async def terminate(self, instance: InstanceId) -> None:
        """Kill a container and remove it."""
        container = await self._inspect(instance)
        if container is None or container["Config"]["Labels"].get(PROVIDER) != self.name:
            raise InstanceNotFoundError(f"no container {instance}")
        await self._remove(container["Id"])

    async def list_instances(self) -> Sequence[Instance]:
        """Return every container of this provider, running or not."""
        return [self._listed(found) for found in await self._containers_listed()]

    async def instance_checks(
        self, instances: Sequence[InstanceId]
    ) -> Mapping[InstanceId, InstanceCheck]:
        """Return the states of containers, from one listing."""
        wanted = set(instances)
        return {
            InstanceId(found.id): InstanceCheck(
                health=_HEALTH[found.state],
                reason=f"the Docker engine reports the container as {found.state}",
            )
            for found in await self._containers_listed()
            if found.id in wanted and found.state in _HEALTH
        }

    async def _containers_listed(self) -> list[_Listed]:
        filters = msgspec.json.encode({"label": [f"{PROVIDER}={self.name}"]}).decode()
        response = await self._engine.request(
            "GET", "/containers/json", query={"all": "1", "filters": filters}
        )
        if response.status != 200:
            raise _refusal(response, "list")
        try:
            return _LISTINGS.decode(response.body)
        except ValueError as error:
            # A container left out would look terminated, so a partial listing is an error.
            raise TransientError(f"the engine's listing cannot be read: {error}") from error

    def _description(self, request: ProvisionRequest) -> dict[str, Any]:
        """Return the body of the create request."""
        ours = self._containers
        command = list(ours.command)
        environment = dict(ours.environment(request))
        if ours.simulated_gpus:
            environment |= {
                "NAVARCH_FAKE_GPU": "true",
                "NAVARCH_GPU_COUNT": str(ours.simulated_gpus),
            }
        host: dict[str, Any] = {"NetworkMode": ours.network, "AutoRemove": True, "Init": False}
        if ours.real_gpus:
            host["DeviceRequests"] = [{"Count": -1, "Capabilities": [["gpu"]]}]
        return {
            "Image": request.image or ours.image,
            "Hostname": request.name[:63],
            "Entrypoint": command[:1],
            "Cmd": command[1:],
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Labels": {
                **request.labels,
                PROVIDER: self.name,
                KIND: request.instance_type,
                REGION: request.region,
                ZONE: request.zone,
            },
            "HostConfig": host,
        }

    async def _remove(self, container: str) -> None:
        response = await self._engine.request(
            "DELETE", _path(container), query={"force": "1", "v": "1"}
        )
        # 409: the engine is already removing it.
        if response.status not in (204, 404, 409):
            raise _refusal(response, "remove")

    async def _inspect(self, container: str) -> dict[str, Any] | None:
        response = await self._engine.request("GET", f"{_path(container)}/json")
        if response.status == 404:
            return None
        if response.status != 200:
            raise _refusal(response, "inspect")
        found: dict[str, Any] = decode(response)
        return found

    def _listed(self, found: _Listed) -> Instance:
        networks = (found.network_settings and found.network_settings.networks) or {}
        return self._instance(
            found.id,
            found.state,
            found.labels or {},
            datetime.fromtimestamp(found.created, UTC),
            [each.ip_address for each in networks.values()],
        )

    def _instance(
        self,
        container: str,
        state: str,
        labels: Mapping[str, str],
        created: datetime,
        addresses: Sequence[str],
    ) -> Instance:
        return Instance(
            id=InstanceId(container),
            provider=ProviderName(self.name),
            status=_STATUSES.get(state, InstanceStatus.PENDING),
            instance_type=labels.get(KIND, ""),
            region=labels.get(REGION, ""),
            zone=labels.get(ZONE, ""),
            private_address=next((each for each in addresses if each), ""),
            labels={name: value for name, value in labels.items() if not name.startswith(OURS)},
            launched_at=created,
        )


def _path(container: str) -> str:
    return f"/containers/{quote(container, safe='')}"


def container_name(request: ProvisionRequest) -> str:
    """Return the container name of a token; the cluster is part of it."""
    token = f"{request.labels.get(CLUSTER, '')}\0{Token(request.token)}"
    return f"navarch-{hashlib.sha256(token.encode()).hexdigest()[:24]}"


def _refusal(response: Response, what: str) -> ProviderError:
    """Return the translation of an error response."""
    message = error_message(response)
    text = f"the engine refused to {what}: {message}"
    if response.status in (400, 404, 409):
        return RejectedError(text)
    if "could not select device driver" in message:
        return RejectedError(f"{text}; install the NVIDIA container toolkit, or leave GPUs out")
    return TransientError(text)
