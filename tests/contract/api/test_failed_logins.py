"""Failed logins are counted, logged and slowed, and delay no valid credentials."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, MutableMapping
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs
from tests.support.local_api import build_local_api, call_app, serve_local_api
from tests.support.recording_metrics import RecordingMetrics

from navarch.api import logins
from navarch.api.logins import AT_ONCE_MAX, DELAY_S, WAITING_MAX, FailedLogins, peer_name
from navarch.client.connect import connect_fleet
from navarch.core.errors import UnauthenticatedError, UnreachableError
from navarch.ports.agents import UnauthorizedError
from navarch.ports.metrics import NoMetrics
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop

TOKEN = "the-token-of-this-test"
Lines = list[MutableMapping[str, Any]]
FAILED = "navarch_failed_logins_total"


@pytest.fixture
def lines() -> Iterator[Lines]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    with capture_logs() as captured:
        yield captured


Story = Callable[[FailedLogins, SimClock], Coroutine[Any, Any, None]]


def play(story: Story) -> None:
    clock = SimClock()
    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story(FailedLogins(clock, NoMetrics()), clock))


def test_a_few_typos_are_answered_at_once_and_further_guesses_are_slow() -> None:
    async def story(failed: FailedLogins, clock: SimClock) -> None:
        began = clock.monotonic()
        for _ in range(AT_ONCE_MAX):
            assert await failed.note("http", "10.0.0.7", wrong=True)
        assert clock.monotonic() == began
        assert await failed.note("http", "10.0.0.7", wrong=True)
        assert clock.monotonic() == began + DELAY_S

    play(story)


def test_a_peer_that_guesses_does_not_slow_another() -> None:
    async def story(failed: FailedLogins, clock: SimClock) -> None:
        for _ in range(10 * AT_ONCE_MAX):
            await failed.note("http", "10.0.0.7", wrong=True)
        began = clock.monotonic()
        assert await failed.note("http", "10.0.0.8", wrong=True)
        assert clock.monotonic() == began

    play(story)


def test_guesses_in_parallel_are_cut_off_beyond_a_bound() -> None:
    async def story(failed: FailedLogins, _clock: SimClock) -> None:
        notes = [
            failed.note("http", "10.0.0.7", wrong=True)
            for _ in range(AT_ONCE_MAX + WAITING_MAX + 9)
        ]
        answered = await asyncio.gather(*notes)
        assert answered.count(False) == 9
        assert await failed.note("http", "10.0.0.7", wrong=True), "it may guess again later"

    play(story)


def test_requests_without_credentials_are_no_guesses() -> None:
    async def story(failed: FailedLogins, clock: SimClock) -> None:
        began = clock.monotonic()
        for _ in range(10 * AT_ONCE_MAX):
            assert await failed.note("http", "10.0.0.7", wrong=False)
        assert clock.monotonic() == began

    play(story)


def test_a_peer_is_logged_once_a_minute_with_the_count(lines: Lines) -> None:
    async def story(failed: FailedLogins, clock: SimClock) -> None:
        for _ in range(100):
            await failed.note("http", "10.0.0.7", wrong=True)
        assert len(lines) == 2, "at once, and after a minute"
        assert (lines[0]["peer"], lines[0]["failures"]) == ("10.0.0.7", 1)
        assert lines[1]["failures"] > 50
        assert "wrong" not in str({k: v for k, v in lines[0].items() if k != "reason"})
        assert clock.monotonic() > 60

    play(story)


def test_the_table_of_peers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(failed: FailedLogins, _clock: SimClock) -> None:
        for number in range(50):
            await failed.note("http", f"10.0.0.{number}", wrong=True)
        assert len(failed._peers) == 20

    monkeypatch.setattr(logins, "PEERS_MAX", 20)
    play(story)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("ipv4:10.0.0.7:4711", "10.0.0.7"),
        ("ipv6:%5B2001:db8::1:2%5D:4711", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::1", "2001:db8::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix:", "unix:"),
        ("x" * 1000, "x" * 64),
    ],
)
def test_a_peer_is_named_by_its_address_or_its_network(address: str, name: str) -> None:
    assert peer_name(address) == name


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_valid_token_is_accepted_at_once_while_its_own_address_guesses(
    protocol: str, lines: Lines
) -> None:
    async def story() -> None:
        metrics = RecordingMetrics()
        local = build_local_api(token=TOKEN, metrics=metrics)
        async with serve_local_api(local, http=protocol == "http", grpc=protocol == "grpc"):
            url = local.http_url or local.grpc_url
            guesses = [asyncio.create_task(guess(url)) for _ in range(3 * AT_ONCE_MAX)]
            await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
            fleet = connect_fleet(url, TOKEN, 10.0)
            await fleet.status()
            assert not all(each.done() for each in guesses), "the guesses are slower"
            await fleet.close()
            await asyncio.gather(*guesses)
            (line,) = [x for x in lines if x["event"] == "login.failed"]
            assert line["peer"] == "127.0.0.1"
            assert metrics.value(FAILED, protocol=protocol, reason="wrong") == len(guesses)

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_login_that_is_one_too_many_is_unavailable_so_that_agents_repeat_the_call() -> None:
    async def story() -> None:
        app = build_local_api(token=TOKEN).app
        count = AT_ONCE_MAX + WAITING_MAX + 3
        answers = await asyncio.gather(
            *(
                call_app(app, "GET", "/v1/status", authorization="Bearer wrong")
                for _ in range(count)
            )
        )
        refused = [each for each in answers if each.status != 401]
        assert [each.status for each in refused] == [503] * 3
        assert {each.json["code"] for each in refused} == {"unavailable"}

    asyncio.run(story())


async def guess(url: str) -> None:
    fleet = connect_fleet(url, "a-wrong-token-of-it", 10.0)
    with pytest.raises((UnauthenticatedError, UnauthorizedError, UnreachableError)):
        await fleet.status()
    await fleet.close()
