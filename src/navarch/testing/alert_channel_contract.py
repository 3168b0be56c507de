"""The contract of every alert channel. Subclass it, supply a channel, and run it with pytest."""

import asyncio
import traceback
from collections.abc import Iterator
from datetime import timedelta

import pytest

from navarch.core.alert import Alert, AlertAction, AlertMessage, AlertState, Severity
from navarch.core.errors import AlertDeliveryError
from navarch.core.event import Subject
from navarch.core.ids import AlertId, PoolName
from navarch.core.records import evolve
from navarch.ports.alert_channel import AlertChannel
from navarch.testing.worlds import NOW

SECRET = "s3cret-Key_of.the/channel"
"""What the channel under test authenticates with: no error and no answer may contain it."""

AWKWARD = 'GPU "7" <b>fell</b> off & the *bus*\r\nSubject: \x00 übel 火 ' + "x" * 5000
"""A summary with everything that formats give a meaning to."""


def an_alert(name: str = "training-0", **facts: object) -> Alert:
    """Return an alert that fires."""
    return Alert(
        **{
            "id": AlertId(f"node-fault@{name}"),
            "cause": "node-fault",
            "subject": Subject(f"node/{name}"),
            "severity": Severity.CRITICAL,
            "summary": f"{name}: XID 79",
            "remedy": f"navarch why {name}",
            "pool": PoolName("training"),
            "team": "nlp",
            "group": "node-fault/training",
            "state": AlertState.FIRING,
            "seen_at": NOW,
            "began_at": NOW,
            "changed_at": NOW,
            "version": 1,
            **facts,
        }  # type: ignore[arg-type]
    )


def ended(alert: Alert) -> Alert:
    """Return `alert` after its end."""
    at = NOW + timedelta(minutes=5)
    return evolve(
        alert, state=AlertState.RESOLVED, resolved_at=at, changed_at=at, version=alert.version + 1
    )


def a_message(
    *alerts: Alert, action: AlertAction = AlertAction.TRIGGER, number: int = 1
) -> AlertMessage:
    """Return a message about one group."""
    alerts = alerts or (an_alert(),)
    return AlertMessage(
        id=f"cluster-1/ops/node-fault/training#{number}",
        action=action,
        cluster="cluster-1",
        group="node-fault/training",
        alerts=alerts,
        news=tuple(each.id for each in alerts),
        created_at=NOW,
    )


class AlertChannelContract:
    """What the outbox relies on.

    A subclass starts the service in `service`, which yields, and implements the methods below.
    """

    @pytest.fixture
    def service(self) -> Iterator[None]:
        """Run a service that validates what it receives as the real one does."""
        raise NotImplementedError

    def channel(self, *, timeout: timedelta = timedelta(seconds=10)) -> AlertChannel:
        """Return a channel to the service, which authenticates with SECRET if it can."""
        raise NotImplementedError

    def received(self) -> list[str]:
        """Return the text of everything that the service has accepted, in order."""
        raise NotImplementedError

    def refuse(self) -> None:
        """Make the service refuse everything, in words that repeat what it received."""
        raise NotImplementedError

    def overload(self) -> None:
        """Make the service busy."""
        raise NotImplementedError

    def hang(self) -> None:
        """Make the service accept connections, and answer nothing."""
        raise NotImplementedError

    def open_groups(self) -> int | None:
        """Return how many groups count as open at the service; None if it keeps no such state."""
        return None

    def send(self, message: AlertMessage, *, timeout: timedelta = timedelta(seconds=10)) -> str:
        """Send `message` and return the answer."""

        async def story() -> str:
            return await self.channel(timeout=timeout).send(message)

        return asyncio.run(story())

    def fail(self, *, timeout: timedelta = timedelta(seconds=10)) -> AlertDeliveryError:
        """Send a message, and return the error."""
        with pytest.raises(AlertDeliveryError) as caught:
            self.send(a_message(), timeout=timeout)
        text = "".join(traceback.format_exception(caught.value))
        assert SECRET not in text
        assert SECRET not in repr(caught.value)
        return caught.value

    @pytest.mark.usefixtures("service")
    @pytest.mark.parametrize("action", list(AlertAction))
    def test_the_service_accepts_every_action(self, action: AlertAction) -> None:
        alert = an_alert()
        alerts = (ended(alert),) if action is AlertAction.RESOLVE else (alert,)
        answer = self.send(a_message(*alerts, action=action))
        assert answer
        assert SECRET not in answer
        assert self.received()

    @pytest.mark.usefixtures("service")
    @pytest.mark.parametrize("severity", list(Severity))
    def test_the_service_accepts_every_severity(self, severity: Severity) -> None:
        self.send(a_message(an_alert(severity=severity)))
        assert self.received()

    @pytest.mark.usefixtures("service")
    def test_people_read_what_happened_where_and_what_to_do(self) -> None:
        self.send(a_message())
        text = self.received()[-1]
        for words in ("XID 79", "node/training-0", "critical", "navarch why training-0"):
            assert words in text

    @pytest.mark.usefixtures("service")
    def test_a_storm_is_one_message_with_its_count(self) -> None:
        self.send(a_message(*[an_alert(f"training-{i}") for i in range(500)]))
        assert "500" in self.received()[-1]

    @pytest.mark.usefixtures("service")
    def test_any_text_is_accepted(self) -> None:
        strange = an_alert(summary=AWKWARD, remedy=AWKWARD, team='a "b"', pool=None)
        self.send(a_message(*[evolve(strange, id=AlertId(f"x@{i}")) for i in range(40)]))
        assert self.received()

    @pytest.mark.usefixtures("service")
    def test_the_end_closes_what_the_beginning_opened(self) -> None:
        alert = an_alert()
        self.send(a_message(alert))
        if self.open_groups() is None:
            pytest.skip("this service keeps no state")
        assert self.open_groups() == 1
        self.send(a_message(alert))
        assert self.open_groups() == 1
        self.send(a_message(ended(alert), action=AlertAction.RESOLVE, number=2))
        assert self.open_groups() == 0

    @pytest.mark.usefixtures("service")
    def test_a_test_leaves_nothing_open(self) -> None:
        self.send(a_message(an_alert(cause="test"), action=AlertAction.TEST))
        assert not self.open_groups()

    @pytest.mark.usefixtures("service")
    def test_a_refusal_states_the_reason_and_no_secret(self) -> None:
        self.refuse()
        error = self.fail()
        assert error.refused
        assert str(error)

    @pytest.mark.usefixtures("service")
    def test_a_busy_service_is_tried_again_soon(self) -> None:
        self.overload()
        assert not self.fail().refused

    @pytest.mark.usefixtures("service")
    def test_a_service_that_hangs_is_given_up(self) -> None:
        self.hang()
        assert not self.fail(timeout=timedelta(milliseconds=200)).refused
