"""No credential shows in an error, a log line or the store, whatever a cloud answers.

The servers of these tests repeat every header of a request in their refusals.
"""

import asyncio
import contextlib
import json
import logging
import traceback
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from navarch.app.control_plane import Plane
from navarch.app.providers import build_provider
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.config import parse_config
from navarch.core.errors import ProviderError
from navarch.core.ids import ProviderName
from navarch.core.launch import Offering
from navarch.notifiers.log import LogWorkloads
from navarch.ports.provider import Provider, ProvisionRequest
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.ec2 import AwsSettings
from navarch.providers.gcp.client import COMPUTE, ComputeClient, credentials_for
from navarch.providers.gcp.provider import GcpCloud
from navarch.providers.gcp.translation import GcpSettings
from navarch.providers.lambdalabs.account import LambdaAccount, RateLimits
from navarch.providers.lambdalabs.provider import LambdaCloud
from navarch.providers.rate_limit import RateLimit
from navarch.service.views import pool_spec
from navarch.sim.kernel.clock import InlineOffload
from navarch.stores.sqlite import SqliteStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.loopback_server import HttpRequest, HttpResponse, Wire, serve
from navarch.testing.provider_contract import ProviderContract
from navarch.testing.worlds import a_pool

QUIET = settings(
    max_examples=60,
    deadline=None,
    # A leak needs no minimal example, and each attempt costs a call.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

SECRETS = st.text(
    st.characters(min_codepoint=33, max_codepoint=126), min_size=12, max_size=60
) | st.text(min_size=12, max_size=40)
"""Keys of the usual form, and unusual ones."""

STATUSES = st.sampled_from([301, 400, 401, 403, 404, 409, 429, 500, 503])


def all_texts_of(error: BaseException) -> str:
    """Return every text that a log could contain of an error, including its causes."""
    parts = ["".join(traceback.format_exception(error))]
    while error is not None:
        parts += [str(error), repr(error)]
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return "\n".join(parts)


def call_everything(provider: Provider, request: ProvisionRequest) -> list[BaseException]:
    """Return the errors of a launch, a termination and a listing."""
    found: list[BaseException] = []

    async def story() -> None:
        for call in (
            lambda: provider.provision(request),
            lambda: provider.terminate("i-1"),  # type: ignore[arg-type]
            provider.list_instances,
        ):
            try:
                await call()
            except ProviderError as error:
                found.append(error)

    asyncio.run(story())
    return found


@contextlib.contextmanager
def echoing_server(status: int) -> Iterator[str]:
    """Serve refusals that repeat every header of the request."""

    def answer(request: HttpRequest) -> HttpResponse:
        shown = " ".join(request.headers.values())
        code = "instance-operations/launch/insufficient-capacity"
        error = {"error": {"code": code, "message": f"You sent {shown}", "suggestion": shown}}
        return HttpResponse(status, json.dumps(error).encode(), {"Location": f"/{request.path}"})

    with serve(answer, Wire()) as url:
        yield url


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[int, str]]:
    with contextlib.ExitStack() as stack:
        yield {
            status: stack.enter_context(echoing_server(status))
            for status in (301, 400, 401, 403, 404, 409, 429, 500, 503)
        }


@QUIET
@given(secret=SECRETS, status=STATUSES)
def test_no_error_contains_the_key_of_lambda(
    secret: str, status: int, urls: dict[int, str]
) -> None:
    at_once = RateLimits(
        calls=RateLimit(0.0, 0.0, "calls"), launches=RateLimit(0.0, 0.0, "launches")
    )
    account = LambdaAccount(
        SystemClock(), InlineOffload(), at_once, api_key=secret, endpoint=urls[status]
    )
    cloud = LambdaCloud(SystemClock(), account, name="lambda", ssh_key="laptop")
    errors = call_everything(cloud, ProviderContract().request())
    assert len(errors) == 3
    assert all(secret not in all_texts_of(error) for error in errors)


@settings(QUIET, max_examples=12)
@given(
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=20, max_size=60),
    status=STATUSES,
)
def test_no_error_contains_the_secret_access_key_of_aws(
    secret: str, status: int, urls: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    chosen = AwsSettings(regions=("us-east-1",), endpoint=urls[status], image="ami-1")
    account = AwsAccount(SystemClock(), InlineOffload(), chosen)
    errors = call_everything(account, ProviderContract().request())
    assert errors
    assert all(secret not in all_texts_of(error) for error in errors)


@QUIET
@given(secret=st.text(min_size=12, max_size=60))
def test_no_error_contains_a_part_of_a_google_key_file(secret: str, tmp_path: Path) -> None:
    key = {
        "type": "service_account",
        "private_key": f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n",
        "private_key_id": "1",
        "client_email": "fleet@example.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.example/token",
    }
    file = tmp_path / "key.json"
    file.write_text(json.dumps(key))
    client = ComputeClient(
        InlineOffload(), project="p", credentials=credentials_for(COMPUTE, file=str(file))
    )
    cloud = GcpCloud(SystemClock(), client, GcpSettings(name="gcp", project="p"))
    errors = call_everything(cloud, ProviderContract().request())
    assert errors
    assert all(secret not in str(error) + repr(error) for error in errors)
    assert all(str(secret) not in "".join(traceback.format_exception(e)) for e in errors)


def test_a_refused_key_is_not_in_the_journal_the_log_or_on_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "sk-live-0123456789-do-not-tell"
    caplog.set_level(logging.DEBUG)
    with echoing_server(400) as url:
        config = parse_config(
            "server: {external_address: https://n.com}\n"
            f"providers: {{lambda: {{type: lambda, api_key: {secret}, endpoint: '{url}', "
            "ssh_key: laptop}}\n"
            "pools: {training: {provider: lambda, instance_type: gpu_8x_h100_sxm5, "
            "region: us-east-1, max_nodes: 1}}\n"
        )
        output = capture_everything(tmp_path, config.providers["lambda"], url)
    assert secret not in output
    assert secret not in caplog.text
    assert secret not in repr(config)
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"launch.refused" in kept, "the refusal itself was kept"
    assert secret.encode() not in kept


def capture_everything(folder: Path, config: object, _url: str) -> str:
    """Run a control plane until its first launch is refused; return its log."""
    clock = SystemClock()
    threads = ThreadOffload("test", at_once=4)
    here = Offering(
        provider=ProviderName("lambda"), instance_type="gpu_8x_h100_sxm5", region="us-east-1"
    )

    class Surroundings:
        def __init__(self) -> None:
            self.clock = clock

        def threads(self, _name: str, *, at_once: int = 1) -> ThreadOffload:
            del at_once
            return threads

    async def story(store: SqliteStore) -> None:
        plane = Plane(
            clock,
            SystemEntropy(),
            store,
            providers=[build_provider(config, Surroundings())],  # type: ignore[arg-type]
            notifier=LogWorkloads(),
            liveness=TelemetryTable(clock, timeout=timedelta(minutes=5)),
        )
        pool = a_pool(offerings=(here,), size=1)
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(plane.run())
            await plane.fleet.put_pool(pool_spec(pool), reason="begin")
            async with asyncio.timeout(60):
                while True:
                    events = [entry.event.kind for entry in await store.events()]
                    if "launch.refused" in events:
                        break
                    await asyncio.sleep(0.05)
            life.cancel()

    offload = ThreadOffload("store")
    try:
        with capture_logs() as logged:
            store = SqliteStore.open(folder, offload, SystemEntropy())
            asyncio.run(story(store))
            store.close()
    finally:
        offload.close()
        threads.close()
    return repr(logged)
