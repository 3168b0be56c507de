"""The PagerDuty channel against a service that validates events as Events API v2 does."""

import json
from datetime import timedelta

import pytest
from tests.support.alert_services import PagerDuty
from tests.support.channel_services import CLOCK, HttpChannelContract

from navarch.core.alert import AlertAction, Severity
from navarch.core.records import evolve
from navarch.notifiers.alerts.pagerduty import PagerDutyChannel
from navarch.ports.alert_channel import AlertChannel
from navarch.sim.kernel.clock import InlineOffload
from navarch.testing.alert_channel_contract import SECRET, a_message, an_alert, ended
from navarch.testing.loopback_server import HttpRequest, HttpResponse


class TestPagerDutyChannel(HttpChannelContract):
    routing_key = SECRET

    def answer(self, request: HttpRequest) -> HttpResponse:
        if len(self.wire.requests) == 1:
            self.pagerduty = PagerDuty(SECRET)
        return self.pagerduty.answer(request)

    def channel(self, *, timeout: timedelta = timedelta(seconds=10)) -> AlertChannel:
        return PagerDutyChannel(
            CLOCK,
            InlineOffload(),
            name="oncall",
            routing_key=self.routing_key,
            url=self.url + "/v2/enqueue",
            timeout=timeout,
        )

    def open_groups(self) -> int:
        return len(self.pagerduty.open)

    @pytest.mark.usefixtures("service")
    def test_a_long_group_keeps_one_key(self) -> None:
        long = evolve(a_message(), group="node-fault/" + "x" * 300)
        self.send(long)
        alerts = tuple(map(ended, long.alerts))
        self.send(evolve(long, action=AlertAction.RESOLVE, alerts=alerts))
        keys = {json.loads(request.body)["dedup_key"] for request in self.accepted}
        assert len(keys) == 1
        assert self.open_groups() == 0

    @pytest.mark.usefixtures("service")
    def test_an_escalation_raises_the_severity_of_the_incident(self) -> None:
        self.send(a_message(an_alert(severity=Severity.WARNING)))
        self.send(a_message(an_alert(version=2), number=2))
        severities = [json.loads(x.body)["payload"]["severity"] for x in self.accepted]
        assert severities == ["warning", "critical"]
        assert self.open_groups() == 1

    @pytest.mark.usefixtures("service")
    def test_a_wrong_key_is_refused_and_not_shown(self) -> None:
        self.routing_key = SECRET + "-wrong"
        assert self.fail().refused
