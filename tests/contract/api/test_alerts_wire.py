"""Alerts, silences and channels over the wire and on the command line."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from click.testing import CliRunner, Result
from tests.support.local_api import LocalApi, build_local_api, serve_local_api

from navarch.cli.main import navarch
from navarch.client.connect import connect_fleet
from navarch.clock import SystemClock, SystemEntropy
from navarch.control.alerts import AlertSetup
from navarch.core.alert import Alert, AlertGroup, AlertState, Severity
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.fleet import Change
from navarch.core.ids import AlertId, SilenceId
from navarch.core.records import evolve
from navarch.fleet.alerts.outbox import delivered, undelivered
from navarch.notifiers.alerts.log import LogChannel
from navarch.notifiers.alerts.simulated import AlertInbox, ChannelFaults, SimulatedChannel
from navarch.ports.alerts import AlertApi, SilenceRequest
from navarch.testing.alert_channel_contract import a_message, an_alert, ended
from navarch.testing.worlds import NOW

CLOCK = SystemClock()


class Wired:
    """A control plane with three channels, one of which refuses everything."""

    def __init__(self) -> None:
        self.inbox = AlertInbox()
        refused, hangs = ChannelFaults(refused=1.0), ChannelFaults()
        entropy = SystemEntropy()
        channels = {
            "ops": SimulatedChannel(CLOCK, entropy, self.inbox, hangs, name="ops"),
            "broken": SimulatedChannel(CLOCK, entropy, self.inbox, refused, name="broken"),
        }
        setup = AlertSetup(channels=lambda: {"log": LogChannel(), **channels})
        self.local: LocalApi = build_local_api(alerts=setup)

    async def put(self, *alerts: Alert, groups: tuple[AlertGroup, ...] = ()) -> None:
        change = Change(alerts=alerts, alert_groups=groups)
        await self.local.store.commit(change, based_on=self.local.store.fleet().revision)

    async def typed(self, *words: str) -> Result:
        command = [*words, "--server", self.local.http_url]
        return await asyncio.to_thread(CliRunner().invoke, navarch, command)


def play(story: Callable[[Wired, AlertApi], Awaitable[None]]) -> None:
    async def main() -> None:
        wired = Wired()
        async with serve_local_api(wired.local):
            api = connect_fleet(wired.local.http_url)
            assert isinstance(api, AlertApi)
            await story(wired, api)
            await api.close()

    asyncio.run(main())


def test_alerts_are_listed_by_urgency_with_who_received_them() -> None:
    async def story(wired: Wired, api: AlertApi) -> None:
        warning = an_alert("a", severity=Severity.WARNING)
        explained = an_alert("c", part_of=AlertId("nodes-unreachable@training"))
        record = AlertGroup(id="ops/g", channel="ops", group="g", sent={an_alert("b").id: 1})
        over = ended(an_alert("d"))
        await wired.put(warning, an_alert("b"), explained, over, groups=(record,))
        pending = an_alert("e", state=AlertState.PENDING)
        await wired.put(pending)
        found = await api.list_alerts()
        assert [(x.alert.subject, x.channels) for x in found] == [
            ("node/b", ("ops",)),
            ("node/c", ()),
            ("node/a", ()),
        ]
        assert len(await api.list_alerts(ended=True)) == 4
        text = (await wired.typed("alert", "list")).output
        assert text.index("node/b") < text.index("node/a")
        assert "explained" in text
        assert "XID 79" in text

    play(story)


def request(**facts: object) -> SilenceRequest:
    given = {"author": "kim", "seconds": 3600.0, "pool": "training", **facts}
    return SilenceRequest(**given)  # type: ignore[arg-type]


def test_a_silence_has_an_author_an_end_and_a_place_in_the_journal() -> None:
    async def story(wired: Wired, api: AlertApi) -> None:
        await wired.put(an_alert("a"))
        made = await api.silence(request(reason="rack move"))
        assert made.ends_at - made.starts_at == timedelta(hours=1)
        assert [x.silenced_by for x in await api.list_alerts()] == [made.id]
        assert "silenced" in (await wired.typed("alert", "list")).output
        ended = await api.end_silence(made.id, author="lee")
        assert not ended.active(CLOCK.now())
        assert [x.silenced_by for x in await api.list_alerts()] == [None]
        assert (await api.list_silences(), len(await api.list_silences(expired=True))) == ((), 1)
        reasons = [x.event.reason for x in await wired.local.store.events()]
        assert [each.partition(":")[0] for each in reasons] == ["kim", "lee"]
        with pytest.raises(NotPossibleError, match="has expired"):
            await api.end_silence(made.id, author="lee")
        with pytest.raises(NotFoundError):
            await api.end_silence(SilenceId("silence-9"), author="lee")

    play(story)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"author": " "}, "author"),
        ({"seconds": 0.0}, "at most 90 days"),
        ({"seconds": 91 * 86400.0}, "at most 90 days"),
        ({"seconds": float("nan")}, "float"),
        ({"pool": ""}, "cause, pool, team or subject"),
        ({"reason": "x" * 501}, "500 characters"),
        ({"team": "a\nb"}, "unprintable"),
    ],
)
def test_a_silence_without_limits_is_refused(facts: dict[str, object], words: str) -> None:
    async def story(wired: Wired, api: AlertApi) -> None:
        with pytest.raises(InvalidError, match=words):
            await api.silence(request(**facts))
        assert not wired.local.store.fleet().alert_silences

    play(story)


def test_silences_are_made_and_ended_on_the_command_line() -> None:
    async def story(wired: Wired, api: AlertApi) -> None:
        refused = await wired.typed("alert", "silence", "--for", "2h")
        assert (refused.exit_code, "--pool" in refused.output) == (2, True)
        words = ("--for", "2h", "--subject", "node/training-*", "--reason", "move")
        made = await wired.typed("alert", "silence", *words, "--author", "kim")
        assert made.output.startswith("Silence silence-")
        (silence,) = await api.list_silences()
        assert (silence.author, silence.subject) == ("kim", "node/training-*")
        listing = (await wired.typed("alert", "silences")).output
        assert "subject=node/training-*" in listing
        done = await wired.typed("alert", "unsilence", silence.id)
        assert done.output == f"Silence {silence.id} ended\n"
        assert (await wired.typed("alert", "silences")).output == "No silences\n"

    play(story)


def test_a_channel_is_tested_with_its_answer_or_its_error() -> None:
    async def story(wired: Wired, api: AlertApi) -> None:
        assert await api.send_test("ops", author="kim") == "accepted"
        (message,) = wired.inbox.accepted
        assert message.title == "[test] test of channel ops, requested by kim"
        with pytest.raises(NotPossibleError, match="refuses the key"):
            await api.send_test("broken", author="kim")
        with pytest.raises(NotFoundError, match="channels: log, ops, broken"):
            await api.send_test("opps", author="kim")
        good = await wired.typed("alert", "test", "ops")
        assert (good.exit_code, good.output) == (0, "Channel ops accepted the test: accepted\n")
        bad = await wired.typed("alert", "test", "broken")
        assert (bad.exit_code, "refuses the key" in bad.output) == (4, True)

    play(story)


def test_a_failing_channel_is_visible_everywhere() -> None:
    async def story(wired: Wired, api: AlertApi) -> None:
        message = a_message()
        fresh = AlertGroup(id="ops/g", channel="ops", group="g", pending=message)
        done = delivered(fresh, message, "202 ok", now=NOW)
        record, _ = undelivered(fresh, message, "503 no capacity", now=CLOCK.now())
        failing = Change(alert_groups=[done])
        await wired.local.store.commit(failing, based_on=0)
        broken = {"id": "broken/g", "channel": "broken"}
        await wired.put(groups=(evolve(record, **broken),))  # type: ignore[arg-type]
        views = {each.name: each for each in await api.list_channels()}
        assert (views["broken"].waiting, views["broken"].failures) == (1, 1)
        assert (views["ops"].waiting, views["ops"].delivered_at) == (0, NOW)
        assert views["log"].kind == "log"
        assert "503 no capacity" in (await wired.typed("alert", "channels")).output
        log = (await wired.typed("alert", "log", "broken")).output
        assert "503 no capacity" in log
        assert "202 ok" not in log
        status = (await wired.typed("status")).output
        assert "Channel broken failed" in status
        assert "503 no capacity" in status

    play(story)


def test_alerts_are_not_available_over_grpc() -> None:
    async def main() -> None:
        wired = Wired()
        async with serve_local_api(wired.local) as local:
            command = ["alert", "list", "--server", local.grpc_url]
            refused = await asyncio.to_thread(CliRunner().invoke, navarch, command)
            assert "not available over gRPC" in refused.output

    asyncio.run(main())
