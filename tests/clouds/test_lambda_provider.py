"""The Lambda provider, against Lambda's published schema on loopback."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest
from tests.support.lambda_server import KEY, LocalLambda, local_lambda

from navarch.clock import SystemClock, ThreadOffload
from navarch.core.errors import (
    CapacityError,
    CredentialError,
    InstanceNotFoundError,
    KeyRefusedError,
    OutcomeUnknownError,
    ProviderError,
    QuotaError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, Token
from navarch.core.instance import InstanceStatus
from navarch.core.records import evolve
from navarch.ports.provider import Provider, ProvisionRequest
from navarch.providers.lambdalabs.account import LAUNCH_EVERY_S, LambdaAccount, lambda_rate_limits
from navarch.providers.lambdalabs.provider import LISTING_LAG, LambdaCloud
from navarch.sim.kernel.clock import InlineOffload, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.testing.loopback_server import (
    LOSE_ANSWER,
    LOSE_REQUEST,
    Fault,
    HttpRequest,
    HttpResponse,
    LoopbackContract,
)
from navarch.testing.provider_contract import Story

Scenario = Callable[[LambdaCloud, LocalLambda], Awaitable[None]]


def run_story(scenario: Scenario, *, key: str = KEY, **settings: Any) -> LocalLambda:
    """Run a scenario in virtual time, with real HTTP to a server on loopback."""

    async def main(local: LocalLambda) -> None:
        local.now_s = asyncio.get_running_loop().time
        clock = SimClock()
        account = LambdaAccount(
            clock,
            InlineOffload(),
            lambda_rate_limits(clock.monotonic()),
            api_key=key,
            endpoint=local.url,
            within_s=2.0,
        )
        # The server has led for a while; a new leader delays its first calls.
        await clock.sleep(LAUNCH_EVERY_S)
        await scenario(LambdaCloud(clock, account, name="lambda"), local)

    with local_lambda(**settings) as local:
        with asyncio.Runner(loop_factory=SimLoop) as runner:
            runner.run(main(local))
        return local


def a_request(token: str = "t-1", **changes: Any) -> ProvisionRequest:
    return evolve(TestLambda().request(), token=Token(token), **changes)


def losing(part: str, how: Fault) -> Callable[[HttpRequest], Fault]:
    return lambda request: how if part in request.path else None


def an_error(status: int, code: str) -> HttpResponse:
    return HttpResponse(status, f'{{"error":{{"code":"{code}","message":"no"}}}}'.encode())


class TestLambda(LoopbackContract):
    local: LocalLambda
    lag_s = LISTING_LAG.total_seconds()

    def run(self, story: Story) -> None:
        async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
            self.local, self.wire = local, local.wire
            await story(cloud)

        run_story(scenario, lag_s=20.0)

    def refuse(self, provider: Provider, error: type[ProviderError]) -> bool:
        answers = {
            CapacityError: an_error(400, "instance-operations/launch/insufficient-capacity"),
            QuotaError: an_error(400, "global/quota-exceeded"),
            CredentialError: an_error(401, "global/invalid-api-key"),
            RejectedError: an_error(400, "global/invalid-parameters"),
            TransientError: an_error(429, "global/unknown"),
        }
        del provider
        self.wire.fault = losing("/launch", answers[error])
        return True

    def impair(self, provider: Provider, instance: InstanceId) -> bool:
        del provider
        self.local.unhealthy.append(instance)
        return True

    def is_purchase(self, request: HttpRequest) -> bool:
        return request.path.endswith("/launch")

    def is_termination(self, request: HttpRequest) -> bool:
        return request.path.endswith("/terminate")

    def request(self) -> ProvisionRequest:
        return evolve(
            super().request(),
            instance_type="gpu_8x_h100_sxm5",
            region="us-east-1",
            zone="",
            ssh_keys=("laptop",),
        )


def test_a_running_machine_is_listed_with_its_price_and_addresses() -> None:
    async def scenario(cloud: LambdaCloud, _: LocalLambda) -> None:
        await cloud.provision(a_request())
        (young,) = await cloud.list_instances()
        assert young.status is InstanceStatus.PENDING
        assert young.public_address == ""
        await asyncio.sleep(300)
        (grown,) = await cloud.list_instances()
        assert grown.status is InstanceStatus.RUNNING
        assert (grown.public_address, grown.private_address) == ("198.51.100.7", "10.19.0.7")
        assert grown.price_per_hour == Decimal("31.92")

    run_story(scenario)


def test_user_data_and_tags_reach_the_machine_unchanged() -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        labels = {**a_request().labels, "Team/Owner": "Ada"}
        await cloud.provision(a_request(labels=labels, user_data="#cloud-config\nö\n"))
        (machine,) = local.machines
        assert machine.request.user_data == "#cloud-config\nö\n"
        tags = {tag.key: tag.value for tag in machine.request.tags or ()}
        assert tags["navarch-token"] == "t-1"
        assert tags["team-owner"] == "Ada"

    run_story(scenario)


def test_a_launch_with_a_lost_response_is_found_by_its_tag() -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        local.wire.fault = losing("/launch", LOSE_ANSWER)
        bought = await cloud.provision(a_request())
        assert bought.id == local.machines[0].id

    assert len(run_story(scenario).machines) == 1


@pytest.mark.parametrize("how", [LOSE_REQUEST, LOSE_ANSWER])
def test_a_lost_launch_that_is_not_listed_yet_has_an_unknown_outcome(how: str) -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        local.wire.fault = losing("/launch", how)
        with pytest.raises(OutcomeUnknownError):
            await cloud.provision(a_request())

    run_story(scenario, lag_s=25.0)


def test_a_server_error_on_launch_is_not_a_stock_out_even_if_it_mentions_capacity() -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        local.wire.fault = losing(
            "/launch",
            HttpResponse(503, b'{"error":{"code":"global/unknown","message":"capacity"}}'),
        )
        with pytest.raises(OutcomeUnknownError):
            await cloud.provision(a_request())

    run_story(scenario)


def test_an_unreachable_server_is_a_transient_error() -> None:
    async def scenario(cloud: LambdaCloud) -> None:
        with pytest.raises(TransientError):
            await cloud.provision(a_request())

    async def main() -> None:
        clock = SimClock()
        account = LambdaAccount(
            clock,
            InlineOffload(),
            lambda_rate_limits(clock.monotonic()),
            api_key=KEY,
            endpoint="http://127.0.0.1:9/api/v1",
        )
        await scenario(LambdaCloud(clock, account, name="lambda"))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


REFUSALS: list[tuple[str, int, str, type[ProviderError]]] = [
    ("sold out", 400, "instance-operations/launch/insufficient-capacity", CapacityError),
    ("quota", 400, "global/quota-exceeded", QuotaError),
    ("key", 401, "global/invalid-api-key", KeyRefusedError),
    ("inactive", 403, "global/account-inactive", CredentialError),
    ("address", 400, "global/invalid-address", CredentialError),
    ("forbidden", 403, "global/forbidden", CredentialError),
    ("parameters", 400, "global/invalid-parameters", RejectedError),
    ("missing", 404, "global/object-does-not-exist", RejectedError),
    ("region", 400, "instance-operations/launch/file-system-in-wrong-region", RejectedError),
    ("duplicate", 400, "global/duplicate", RejectedError),
    ("conflict", 409, "global/conflict", RejectedError),
    ("new 4xx", 422, "global/never-heard-of", RejectedError),
    ("throttled", 429, "global/unknown", TransientError),
    ("internal", 500, "global/internal-error", OutcomeUnknownError),
    ("no words", 502, "", OutcomeUnknownError),
]


@pytest.mark.parametrize(
    ("status", "code", "error"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_every_refusal_raises_its_error(status: int, code: str, error: type[ProviderError]) -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        body = f'{{"error":{{"code":"{code}","message":"no"}}}}' if code else "<html>"
        local.wire.fault = losing("/launch", HttpResponse(status, body.encode()))
        with pytest.raises(error) as caught:
            await cloud.provision(a_request())
        assert type(caught.value) is error
        assert KEY not in str(caught.value)

    run_story(scenario)


def test_stock_outs_quotas_and_unknown_keys_raise_their_errors() -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        local.stock["gpu_8x_h100_sxm5", "us-east-1"] = 0
        with pytest.raises(CapacityError):
            await cloud.provision(a_request())
        await asyncio.sleep(12)
        local.quota = 0
        with pytest.raises(QuotaError):
            await cloud.provision(a_request(region="us-west-1"))
        with pytest.raises(RejectedError, match="exactly one SSH key"):
            await cloud.provision(a_request(ssh_keys=()))
        await asyncio.sleep(12)
        with pytest.raises(RejectedError, match="does-not-exist"):
            await cloud.provision(a_request(ssh_keys=("nobody",)))

    run_story(scenario)


def test_a_wrong_key_is_refused_and_not_in_the_error() -> None:
    async def scenario(cloud: LambdaCloud, _: LocalLambda) -> None:
        for call in (cloud.list_instances(), cloud.provision(a_request())):
            with pytest.raises(CredentialError) as caught:
                await call
            assert "wrong-key" not in f"{caught.value!r} {caught.value.__cause__!r}"

    run_story(scenario, key="wrong-key")


def test_a_public_key_is_registered_once_and_found_again() -> None:
    public = "ssh-ed25519 AAAAC3 ada@example.com"

    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        await cloud.provision(a_request(ssh_keys=(public,)))
        await cloud.provision(a_request("t-2", ssh_keys=(public,), labels={"navarch-token": "t-2"}))
        assert len(local.wire.calls("POST", "/ssh-keys")) == 1
        assert {m.request.ssh_key_names[0] for m in local.machines} == set(local.ssh_keys) - {
            "laptop"
        }

    run_story(scenario)


def test_a_public_key_that_was_removed_at_lambda_is_registered_again() -> None:
    public = "ssh-ed25519 AAAAC3 ada@example.com"

    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        await cloud.provision(a_request(ssh_keys=(public,)))
        local.ssh_keys.clear()
        again = a_request("t-2", ssh_keys=(public,), labels={"navarch-token": "t-2"})
        with pytest.raises(RejectedError):
            await cloud.provision(again)
        await cloud.provision(again)

    assert len(run_story(scenario).machines) == 2


def test_a_listing_with_an_unreadable_machine_raises() -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        await cloud.provision(a_request())
        local.wire.fault = losing("/instances", HttpResponse(200, b'{"data":[{"id":"1"}]}'))
        with pytest.raises(TransientError):
            await cloud.list_instances()

    run_story(scenario)


def test_terminating_a_reclaimed_machine_raises_not_found() -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        bought = await cloud.provision(a_request())
        local.reclaim(local.machines[0])
        with pytest.raises(InstanceNotFoundError):
            await cloud.terminate(InstanceId(bought.id))

    run_story(scenario)


def test_launches_and_calls_of_all_callers_share_the_rate_limits() -> None:
    async def scenario(cloud: LambdaCloud, _local: LocalLambda) -> None:
        async def buy(number: int) -> None:
            token = f"t-{number}"
            await cloud.provision(a_request(token, labels={"navarch-token": token}))

        async with asyncio.TaskGroup() as tasks:
            for number in range(3):
                tasks.create_task(buy(number))
            for _ in range(5):
                tasks.create_task(cloud.list_instances())

    local = run_story(scenario)
    assert len(local.machines) == 3
    pairs = zip(local.launches_s, local.launches_s[1:], strict=False)
    assert all(later - sooner >= 12.0 - 1e-6 for sooner, later in pairs)
    pairs = zip(local.calls_s, local.calls_s[1:], strict=False)
    assert all(later - sooner >= 1.0 - 1e-6 for sooner, later in pairs)


def test_a_launch_that_would_be_queued_too_long_fails_before_any_call() -> None:
    outcomes = []

    async def scenario(cloud: LambdaCloud, _: LocalLambda) -> None:
        async def buy(number: int) -> None:
            token = f"t-{number}"
            try:
                await cloud.provision(a_request(token, labels={"navarch-token": token}))
            except TransientError as error:
                outcomes.append(str(error))

        async with asyncio.TaskGroup() as tasks:
            for number in range(10):
                tasks.create_task(buy(number))

    local = run_story(scenario)
    assert len(local.machines) + len(outcomes) == 10
    assert len(local.machines) >= 3
    assert "one every 12.1 s" in outcomes[0]


def test_a_throttled_account_gets_no_calls_until_retry_after() -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        local.wire.fault = losing("/instances", HttpResponse(429, b"{}", {"Retry-After": "7"}))
        with pytest.raises(TransientError):
            await cloud.list_instances()
        local.wire.fault = lambda _: None
        began = local.now_s()
        await cloud.list_instances()
        assert local.now_s() - began == pytest.approx(7.0)

    run_story(scenario)


def test_offerings_have_prices_and_gpus() -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        local.stock["gpu_8x_h100_sxm5", "us-west-1"] = 0
        local.stock["gpu_1x_h100_pcie", "us-west-1"] = 0
        local.stock["gpu_1x_h100_pcie", "us-east-1"] = 0
        (offering,) = await cloud.offerings()
        assert (offering.instance_type, offering.region) == ("gpu_8x_h100_sxm5", "us-east-1")
        assert offering.gpus == 8
        assert offering.price_per_hour == Decimal("31.92")
        (gone,) = await cloud.sold_out()
        assert (gone.instance_type, gone.region) == ("gpu_1x_h100_pcie", "")
        assert gone.price_per_hour == Decimal("3.29")

    run_story(scenario)


def test_a_reboot_restarts_the_machine() -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        bought = await cloud.provision(a_request())
        await cloud.reboot(bought.id)
        assert local.restarted == [bought.id]
        with pytest.raises(InstanceNotFoundError):
            await cloud.reboot(InstanceId("nobody"))

    run_story(scenario)


def test_a_call_that_hangs_on_a_real_thread_has_an_unknown_outcome() -> None:
    threads = ThreadOffload("lambda", at_once=2)

    async def main(url: str) -> None:
        clock = SystemClock()
        account = LambdaAccount(
            clock,
            threads,
            lambda_rate_limits(clock.monotonic()),
            api_key=KEY,
            endpoint=url,
            within_s=0.2,
        )
        with pytest.raises(OutcomeUnknownError, match="did not respond in time"):
            await LambdaCloud(clock, account, name="lambda").terminate(InstanceId("i"))

    try:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            asyncio.run(main(f"http://127.0.0.1:{silent.getsockname()[1]}/api/v1"))
    finally:
        threads.close()
