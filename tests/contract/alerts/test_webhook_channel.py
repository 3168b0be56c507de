"""The webhook channel against a receiver that verifies signatures with the published library."""

import base64
from datetime import timedelta

import msgspec
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from tests.support.channel_services import CLOCK, HttpChannelContract

from navarch.notifiers.alerts.webhook import WebhookChannel
from navarch.ports.alert_channel import AlertChannel
from navarch.sim.kernel.clock import InlineOffload
from navarch.testing.alert_channel_contract import SECRET, a_message
from navarch.testing.loopback_server import HttpRequest, HttpResponse

KEY = "whsec_" + base64.b64encode(SECRET.encode()).decode()
TOKEN = "Bearer " + SECRET


class TestWebhookChannel(HttpChannelContract):
    secret = KEY

    def answer(self, request: HttpRequest) -> HttpResponse:
        if request.headers.get("authorization") != TOKEN:
            return HttpResponse(401, b"who are you?")
        try:
            Webhook(KEY).verify(request.body, request.headers)
        except WebhookVerificationError as error:
            return HttpResponse(400, str(error).encode())
        return HttpResponse(204, b"")

    def channel(self, *, timeout: timedelta = timedelta(seconds=10)) -> AlertChannel:
        return WebhookChannel(
            CLOCK,
            InlineOffload(),
            name="hook",
            url=self.url + "/alerts",
            secret=self.secret,
            headers={"Authorization": TOKEN},
            timeout=timeout,
        )

    @pytest.mark.usefixtures("service")
    def test_repetitions_have_the_same_id_and_dedup_key(self) -> None:
        self.send(a_message())
        self.send(a_message())
        first, again = self.accepted
        assert first.headers["webhook-id"] == again.headers["webhook-id"] == a_message().id
        assert first.body == again.body
        assert msgspec.json.decode(first.body)["dedup_key"] == a_message().dedup_key

    @pytest.mark.usefixtures("service")
    def test_the_body_states_title_severity_and_count(self) -> None:
        self.send(a_message())
        body = msgspec.json.decode(self.accepted[0].body)
        assert body["title"] == "[critical] training-0: XID 79"
        assert (body["action"], body["severity"], body["firing"]) == ("trigger", "critical", 1)
        assert body["alerts"][0]["subject"] == "node/training-0"

    @pytest.mark.usefixtures("service")
    def test_another_key_makes_another_signature(self) -> None:
        self.secret = "whsec_" + base64.b64encode(b"another key").decode()
        error = self.fail()
        assert error.refused
        assert "400 No matching signature found" in str(error)
