"""The Slack channel against a webhook that validates messages and blocks as Slack does."""

import json
from datetime import timedelta

import pytest
from tests.support.alert_services import slack
from tests.support.channel_services import CLOCK, HttpChannelContract

from navarch.notifiers.alerts.slack import SlackChannel
from navarch.ports.alert_channel import AlertChannel
from navarch.sim.kernel.clock import InlineOffload
from navarch.testing.alert_channel_contract import SECRET, a_message, an_alert
from navarch.testing.loopback_server import HttpRequest, HttpResponse

PATH = f"/services/T000/B000/{SECRET.replace('/', '-')}"


class TestSlackChannel(HttpChannelContract):
    def answer(self, request: HttpRequest) -> HttpResponse:
        if request.path != PATH:
            return HttpResponse(404, b"no_service")
        return slack(request)

    def channel(self, *, timeout: timedelta = timedelta(seconds=10)) -> AlertChannel:
        url = self.url + PATH
        return SlackChannel(CLOCK, InlineOffload(), name="ops", url=url, timeout=timeout)

    @pytest.mark.usefixtures("service")
    def test_text_cannot_mention_people_or_make_links(self) -> None:
        self.send(a_message(an_alert(summary="<!channel> & <http://evil|here>")))
        body = json.loads(self.accepted[0].body)
        sections = [x["text"]["text"] for x in body["blocks"] if x["type"] == "section"]
        assert "<" not in "".join([body["text"], *sections])
        assert "&lt;!channel&gt; &amp;" in sections[0]

    @pytest.mark.usefixtures("service")
    def test_the_address_of_the_webhook_is_in_no_error(self) -> None:
        self.wire.fault = lambda request: HttpResponse(404, request.path.encode())
        assert PATH.rpartition("/")[2] not in str(self.fail())
