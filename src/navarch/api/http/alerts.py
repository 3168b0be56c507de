"""Routes of alerts, silences and channels."""

from dataclasses import dataclass

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route, get, listed, post
from navarch.core.alert import AlertSilence
from navarch.core.ids import SilenceId
from navarch.ports.alerts import AlertApi, AlertView, ChannelView, DeliveryView, SilenceRequest
from navarch.wire.bodies import Author, ChannelAnswer, Items


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsQuery:
    """A filter of alerts."""

    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SilencesQuery:
    """A filter of silences."""

    expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveriesQuery:
    """A filter of deliveries."""

    channel: str | None = None


def alert_routes(alerts: AlertApi) -> list[Route]:
    """Return every operation of AlertApi."""

    async def list_alerts(request: Request) -> Items[AlertView]:
        return await listed(alerts.list_alerts(ended=request.query(AlertsQuery).ended))

    return [
        get("list_alerts", "/v1/alerts", "List alerts", list_alerts, Items[AlertView], AlertsQuery),
        *_silences(alerts),
        *_channels(alerts),
    ]


def _silences(alerts: AlertApi) -> list[Route]:
    async def list_silences(request: Request) -> Items[AlertSilence]:
        return await listed(alerts.list_silences(expired=request.query(SilencesQuery).expired))

    async def silence(request: Request) -> AlertSilence:
        return await alerts.silence(request.json(SilenceRequest))

    async def end(request: Request) -> AlertSilence:
        author = request.json(Author).author
        return await alerts.end_silence(SilenceId(request.names["silence"]), author=author)

    path = "/v1/alerts/silences"
    return [
        get(
            "list_silences",
            path,
            "List silences of alerts",
            list_silences,
            Items[AlertSilence],
            SilencesQuery,
        ),
        post(
            "silence", path, "Silence alerts for some time", silence, AlertSilence, SilenceRequest
        ),
        post("end_silence", f"{path}/{{silence}}:end", "End a silence", end, AlertSilence, Author),
    ]


def _channels(alerts: AlertApi) -> list[Route]:
    async def deliveries(request: Request) -> Items[DeliveryView]:
        channel = request.query(DeliveriesQuery).channel
        return await listed(alerts.list_deliveries(channel=channel))

    async def test(request: Request) -> ChannelAnswer:
        channel, author = request.names["channel"], request.json(Author).author
        return ChannelAnswer(answer=await alerts.send_test(channel, author=author))

    return [
        get(
            "list_channels",
            "/v1/alerts/channels",
            "List the channels that alerts take",
            lambda _: listed(alerts.list_channels()),
            Items[ChannelView],
        ),
        get(
            "list_deliveries",
            "/v1/alerts/deliveries",
            "List the latest attempts to send alerts",
            deliveries,
            Items[DeliveryView],
            DeliveriesQuery,
        ),
        post(
            "send_test",
            "/v1/alerts/channels/{channel}:test",
            "Send a test message to a channel",
            test,
            ChannelAnswer,
            Author,
        ),
    ]
