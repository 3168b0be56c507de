"""The Docker provider passes the provider contract, with a real engine."""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.docker_engine import EngineDidNotStartError, docker_engine, engine_missing

from navarch.core.errors import (
    CredentialError,
    InvalidError,
    ProviderError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.records import evolve
from navarch.http.message import Endpoint, NoResponseError, NotSentError, Response
from navarch.http.pool import NO_HEADERS, ConnectionPool
from navarch.ports.provider import Provider
from navarch.providers.docker import Containers, Docker, Engine, engine_at
from navarch.providers.docker.provider import container_name, decode
from navarch.testing.provider_contract import ProviderContract, Story

SLEEPING = Containers(image="navarch/test", command=("sleep", "100000"), network="none")


async def _nothing() -> list[Instance]:
    return []


class DeniedPool(ConnectionPool):
    """Connections to a socket without permission."""

    async def request(self, *_: object, **__: object) -> Response:
        raise NotSentError("denied") from PermissionError(13, "Permission denied")


class LossyPool(ConnectionPool):
    """Connections that lose the requests beginning with `begins`, or the responses to them."""

    def __init__(self, endpoint: Endpoint, begins: str, *, effect: bool) -> None:
        super().__init__(endpoint)
        self._begins = begins
        self._effect = effect

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes | None = None,
        idempotent: bool | None = None,
    ) -> Response:
        lost = f"{method} {path}".startswith(self._begins)
        if lost and not self._effect:
            raise NoResponseError("lost")
        response = await super().request(
            method, path, headers=headers, body=body, idempotent=idempotent
        )
        if lost:
            raise NoResponseError("lost")
        return response


def denied(host: str) -> Engine:
    return Engine(DeniedPool(Endpoint(host="docker", socket=host)), host)


def losing(host: str, begins: str, *, effect: bool) -> Engine:
    endpoint = Endpoint(host="docker", socket=host.removeprefix("unix://"))
    return Engine(LossyPool(endpoint, begins, effect=effect), host)


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    missing = engine_missing()
    if missing is not None:
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="nd") as folder:
        try:
            with docker_engine(Path(folder)) as address:
                yield address
        except EngineDidNotStartError as error:
            pytest.skip(f"the engine did not start: {error}")


def request_of(number: int = 1):  # type: ignore[no-untyped-def]  # noqa: ANN201
    labels = {"navarch-cluster": "c-1", "navarch-token": f"t-{number}"}
    return evolve(ProviderContract().request(), token=Token(f"t-{number}"), labels=labels)


async def emptied(engine: Engine, name: str = "docker") -> None:
    provider = Docker(engine, SLEEPING, name=name)
    for each in await provider.list_instances():
        await provider.terminate(each.id)


class TestDocker(ProviderContract):
    @pytest.fixture(autouse=True)
    def _engine(self, host: str) -> None:
        self.host = host

    def run(self, story: Story) -> None:
        async def scenario() -> None:
            engine = engine_at(self.host)
            await emptied(engine)
            try:
                await story(Docker(engine, SLEEPING))
            finally:
                await emptied(engine)

        asyncio.run(scenario())

    async def settle(self) -> None:
        pass

    def refuse(self, provider: Provider, error: type[ProviderError]) -> bool:
        assert isinstance(provider, Docker)
        if error is RejectedError:
            provider._containers = replace(SLEEPING, image="no/such")
        elif error is TransientError:
            provider._engine = engine_at("unix:///nowhere/d.sock")
            # Listings fail too until the engine recovers.
            provider.list_instances = _nothing  # type: ignore[method-assign]
        elif error is CredentialError:
            provider._engine = denied(self.host)
            provider.list_instances = _nothing  # type: ignore[method-assign]
        else:
            return False
        return True

    def lose_answers(self, provider: Provider, *, effect: bool) -> bool:
        assert isinstance(provider, Docker)
        provider._engine = losing(self.host, "POST /v1.41/containers/create", effect=effect)
        return True

    def lose_terminations(self, provider: Provider, *, effect: bool) -> bool:
        assert isinstance(provider, Docker)
        provider._engine = losing(self.host, "DELETE ", effect=effect)
        return True

    def recover(self, provider: Provider) -> None:
        assert isinstance(provider, Docker)
        provider._containers = SLEEPING
        provider._engine = engine_at(self.host)
        vars(provider).pop("list_instances", None)


def test_a_container_that_was_created_and_never_started_is_started_by_its_token(host: str) -> None:
    async def story() -> None:
        engine = engine_at(host)
        provider = Docker(engine, SLEEPING)
        name = container_name(request_of())
        description = provider._description(request_of())
        answer = await engine.request(
            "POST", "/containers/create", query={"name": name}, body=description
        )
        assert answer.status == 201
        (begun,) = await provider.list_instances()
        assert begun.status is InstanceStatus.PENDING
        bought = await provider.provision(request_of())
        assert bought.id == begun.id
        assert bought.status is InstanceStatus.RUNNING
        await emptied(engine)

    asyncio.run(story())


def test_the_agents_settings_are_in_its_environment(host: str) -> None:
    async def story() -> None:
        engine = engine_at(host)
        settings = replace(
            SLEEPING,
            simulated_gpus=8,
            environment=lambda request: {"NAVARCH_NODE_ID": request.name},
        )
        bought = await Docker(engine, settings).provision(request_of())
        found = decode(await engine.request("GET", f"/containers/{bought.id}/json"))
        environment = set(found["Config"]["Env"])
        assert environment >= {
            "NAVARCH_NODE_ID=training-0",
            "NAVARCH_FAKE_GPU=true",
            "NAVARCH_GPU_COUNT=8",
        }
        assert found["Config"]["Hostname"] == "training-0"
        await emptied(engine)

    asyncio.run(story())


def test_a_missing_image_is_rejected(host: str) -> None:
    async def story() -> None:
        provider = Docker(engine_at(host), replace(SLEEPING, image="no/such"))
        with pytest.raises(RejectedError, match="No such image"):
            await provider.provision(request_of())
        assert await provider.list_instances() == []

    asyncio.run(story())


def test_a_container_that_cannot_start_is_not_left_behind(host: str) -> None:
    async def story() -> None:
        engine = engine_at(host)
        missing = Docker(engine, replace(SLEEPING, command=("/no/such/program",)))
        with pytest.raises((RejectedError, TransientError), match="start"):
            await missing.provision(request_of())
        gpus = Docker(engine, replace(SLEEPING, real_gpus=True))
        with pytest.raises(RejectedError, match="NVIDIA container toolkit"):
            await gpus.provision(request_of(2))
        assert await missing.list_instances() == []

    asyncio.run(story())


def test_unrelated_containers_are_neither_listed_nor_removed(host: str) -> None:
    async def story() -> None:
        engine = engine_at(host)
        theirs = await Docker(engine, SLEEPING, name="other").provision(request_of())
        ours = Docker(engine, SLEEPING)
        assert await ours.list_instances() == []
        with pytest.raises(Exception, match="no container"):
            await ours.terminate(theirs.id)
        await emptied(engine, "other")

    asyncio.run(story())


def test_a_missing_engine_is_a_transient_error(tmp_path: Path) -> None:
    async def story() -> None:
        provider = Docker(engine_at(f"unix://{tmp_path}/none.sock"), SLEEPING)
        with pytest.raises(TransientError, match="no Docker engine at"):
            await provider.provision(request_of())

    asyncio.run(story())


def test_a_socket_without_permission_is_a_credential_error_with_a_remedy() -> None:
    async def story() -> None:
        with pytest.raises(CredentialError, match="join the group"):
            await Docker(denied("unix:///x"), SLEEPING).terminate(InstanceId("a"))

    asyncio.run(story())


@pytest.mark.parametrize("host", ["", "ssh://x", "tcp://x", "/var/run/docker.sock"])
def test_an_invalid_address_is_refused(host: str) -> None:
    with pytest.raises(InvalidError, match="is no engine"):
        engine_at(host)
