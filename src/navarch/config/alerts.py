"""The `alerts` block: channels, routes and groups."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar, TypeAlias

from navarch.config.block import Named, Nested, Tagged
from navarch.config.errors import did_you_mean
from navarch.config.kinds import (
    BOOLEAN,
    DURATION,
    DURATION_OR_ZERO,
    HEADER,
    SECRET,
    TEXT,
    URL,
    Choice,
    Integer,
    ListOf,
    MapOf,
    SecretText,
    Text,
    pattern,
    url_remedy,
)
from navarch.config.schema import Fault, block, key
from navarch.config.secret import Secret
from navarch.core.alert import AlertCause, Severity
from navarch.fleet.alerts.outbox import AlertRoute, AlertRouting, ChannelRules
from navarch.notifiers.alerts.alertmanager import FIRES_FOR, REPEAT
from navarch.notifiers.alerts.email import MailSecurity
from navarch.notifiers.alerts.pagerduty import EVENTS_URL

LOG = "log"
"""The channel that writes to the log of the server. It always exists."""

channel_name_remedy = pattern(
    re.compile(r"[a-z][a-z0-9-]{0,39}"),
    "use up to 40 lower-case letters, digits and dashes, a letter first",
)

TIMEOUT = timedelta(seconds=10)


def _resolved() -> bool:
    return key(BOOLEAN, "whether the end of alerts is sent, too", default=True)


def _repeat(default: timedelta | None = None) -> Any:  # noqa: ANN401 - a field declaration
    doc = "how often alerts that still fire are sent again; never if left out"
    return key(DURATION, doc, default=default)


def _messages_per_hour(default: int = 60) -> int:
    return key(
        Integer(least=1, most=3600, example="60"),
        "the most messages within an hour; new critical alerts are sent in any case",
        default=default,
    )


def _timeout() -> timedelta:
    return key(DURATION, "the time limit for connecting and for each answer", default=TIMEOUT)


@block()
class WebhookChannelConfig:
    """A URL that receives alerts as JSON, signed."""

    type: ClassVar[str] = "webhook"
    name: str
    url: str = key(URL, "the URL that receives each message as a POST request")
    secret: Secret | None = key(
        SECRET, "the key of the signature; not signed if left out", default=None, file=True
    )
    headers: Mapping[str, Secret] = key(
        MapOf(each=HEADER), "further HTTP headers; kept secret", default_factory=dict
    )
    timeout: timedelta = _timeout()
    resolved: bool = _resolved()
    repeat: timedelta | None = _repeat()
    messages_per_hour: int = _messages_per_hour()


def _url_is_valid(webhook_url: Secret | None) -> Iterator[Fault]:
    if webhook_url is None:
        yield Fault("webhook_url is required", "add webhook_url or webhook_url_file")
    elif remedy := url_remedy(webhook_url.reveal()):
        yield Fault("webhook_url must be a URL", remedy, at=("webhook_url",))


@block(rules=(_url_is_valid,))
class SlackChannelConfig:
    """A Slack channel, through an incoming webhook."""

    type: ClassVar[str] = "slack"
    name: str
    webhook_url: Secret | None = key(
        SECRET, "the URL of the incoming webhook; kept secret", default=None, file=True
    )
    timeout: timedelta = _timeout()
    resolved: bool = _resolved()
    repeat: timedelta | None = _repeat()
    messages_per_hour: int = _messages_per_hour()


def _routing_key_is_set(routing_key: Secret | None) -> Iterator[Fault]:
    if routing_key is None:
        yield Fault("routing_key is required", "add routing_key or routing_key_file")


@block(rules=(_routing_key_is_set,))
class PagerDutyChannelConfig:
    """A service of PagerDuty, through the Events API v2."""

    type: ClassVar[str] = "pagerduty"
    name: str
    routing_key: Secret | None = key(
        SECRET, "the integration key of the service", default=None, file=True
    )
    url: str = key(URL, "the URL of the Events API", default=EVENTS_URL)
    timeout: timedelta = _timeout()
    resolved: bool = _resolved()
    repeat: timedelta | None = _repeat()
    messages_per_hour: int = _messages_per_hour()


def _repeats_before_the_end(repeat: timedelta | None) -> Iterator[Fault]:
    if repeat is None or repeat > FIRES_FOR / 2:
        yield Fault(
            "Alertmanager resolves alerts that are not repeated", "write repeat: 5m", at=("repeat",)
        )


@block(rules=(_repeats_before_the_end,))
class AlertmanagerChannelConfig:
    """A Prometheus Alertmanager, which groups, silences and forwards alerts itself."""

    type: ClassVar[str] = "alertmanager"
    name: str
    url: str = key(URL, "the URL of Alertmanager, such as `http://alertmanager:9093`")
    headers: Mapping[str, Secret] = key(
        MapOf(each=HEADER), "further HTTP headers; kept secret", default_factory=dict
    )
    timeout: timedelta = _timeout()
    resolved: bool = _resolved()
    repeat: timedelta | None = _repeat(REPEAT)
    messages_per_hour: int = _messages_per_hour(3600)


_mail_address = pattern(re.compile(r"[^@\s<>,]+@[^@\s<>,]+", re.ASCII), "write user@example.com")
MAIL_ADDRESS = Text(noun="a mail address", example="oncall@example.com", check=_mail_address)
PASSWORD = SecretText(noun="a password", spaces=True)


def _password_with_username(username: str | None, password: Secret | None) -> Iterator[Fault]:
    if (username is None) is not (password is None):
        yield Fault("username and password belong together", "set both, or neither")


def _password_is_encrypted(
    password: Secret | None, security: MailSecurity, host: str
) -> Iterator[Fault]:
    local = host in ("localhost", "127.0.0.1", "::1")
    if password is not None and security is MailSecurity.NONE and not local:
        yield Fault(
            "the password would be sent without encryption",
            "write security: starttls or tls",
            at=("security",),
        )


@block(rules=(_password_with_username, _password_is_encrypted))
class EmailChannelConfig:
    """People who receive e-mail."""

    type: ClassVar[str] = "email"
    name: str
    host: str = key(Text(noun="a host", example="smtp.example.com"), "the mail server")
    port: int = key(Integer(least=1, most=65535, example="587"), "its port", default=587)
    security: MailSecurity = key(
        Choice(options=MailSecurity),
        "how the connection is encrypted",
        default=MailSecurity.STARTTLS,
    )
    username: str | None = key(TEXT, "the user name to log in with", default=None)
    password: Secret | None = key(PASSWORD, "its password", default=None, file=True)
    sender: str = key(MAIL_ADDRESS, "the address that messages come from")
    recipients: tuple[str, ...] = key(
        ListOf(each=MAIL_ADDRESS, empty=False), "the addresses that receive them"
    )
    timeout: timedelta = _timeout()
    resolved: bool = _resolved()
    repeat: timedelta | None = _repeat()
    messages_per_hour: int = _messages_per_hour()


ChannelConfig: TypeAlias = (
    WebhookChannelConfig
    | SlackChannelConfig
    | PagerDutyChannelConfig
    | AlertmanagerChannelConfig
    | EmailChannelConfig
)

CHANNEL_TYPES: Mapping[str, type] = {
    cls.type: cls
    for cls in (
        WebhookChannelConfig,
        SlackChannelConfig,
        PagerDutyChannelConfig,
        AlertmanagerChannelConfig,
        EmailChannelConfig,
    )
}

CHANNEL: Tagged[ChannelConfig] = Tagged(
    options=lambda _: CHANNEL_TYPES, unknown="unknown type of channel"
)


@block()
class RouteConfig:
    """Which alerts go to which channels. An alert takes every route that matches it."""

    channels: tuple[str, ...] = key(ListOf(each=TEXT, empty=False), "the names of the channels")
    severities: tuple[Severity, ...] = key(
        ListOf(each=Choice(options=Severity)),
        "only alerts of these severities",
        default=(Severity.WARNING, Severity.CRITICAL),
    )
    causes: tuple[AlertCause, ...] = key(
        ListOf(each=Choice(options=AlertCause)), "only alerts with these causes", default=()
    )
    pools: tuple[str, ...] = key(ListOf(each=TEXT), "only alerts of these pools", default=())
    teams: tuple[str, ...] = key(
        ListOf(each=TEXT), "only alerts of pools with these labels `team`", default=()
    )


def _routes_name_channels(
    channels: Mapping[str, ChannelConfig], routes: tuple[RouteConfig, ...]
) -> Iterator[Fault]:
    known = [LOG, *channels]
    for index, route in enumerate(routes):
        for place, name in enumerate(route.channels):
            if name not in known:
                yield Fault(
                    f'there is no channel "{name}"',
                    did_you_mean(name, known, f"channels: {', '.join(known)}"),
                    at=("routes", index, "channels", place),
                )


def _channels_have_routes(
    channels: Mapping[str, ChannelConfig], routes: tuple[RouteConfig, ...]
) -> Iterator[Fault]:
    routed = {name for route in routes for name in route.channels}
    for name in channels:
        if routes and name not in routed:
            yield Fault(
                f'no route leads to channel "{name}"',
                "add it to the channels of a route, or remove it",
                at=("channels", name),
                warning=True,
            )
    if LOG in channels:
        yield Fault(
            f'the channel "{LOG}" exists already: it is the log of the server',
            "give the channel another name",
            at=("channels", LOG),
        )


@block(rules=(_routes_name_channels, _channels_have_routes))
class AlertsConfig:
    """How people learn of what needs attention."""

    channels: Mapping[str, ChannelConfig] = key(
        Named(subject="channel", each=CHANNEL, check=channel_name_remedy),
        "ways to reach people, by name; `log` is the log of the server",
        default_factory=dict,
    )
    routes: tuple[RouteConfig, ...] = key(
        ListOf(each=Nested(cls=RouteConfig)),
        "which alerts go where; every channel receives warnings and critical alerts if left out",
        default=(),
    )
    group_wait: timedelta = key(
        DURATION_OR_ZERO,
        "how long an alert waits for others of its group; one that ends earlier is not sent",
        default=timedelta(seconds=30),
    )
    group_interval: timedelta = key(
        DURATION_OR_ZERO,
        "the least time between messages about one group that add nothing more severe",
        default=timedelta(minutes=5),
    )
    below_target_after: timedelta = key(
        DURATION,
        "how long a pool must lack nodes, without another alert that explains it",
        default=timedelta(minutes=30),
    )


def to_routing(config: AlertsConfig, more: Mapping[str, ChannelRules]) -> AlertRouting:
    """Return where alerts go; `more` are channels of extensions.

    The log receives every alert, and the others warnings and critical ones, unless a route names
    them.
    """
    rules = {name: to_rules(each) for name, each in config.channels.items()} | dict(more)
    routes = [
        AlertRoute(
            channels=each.channels,
            severities=each.severities,
            causes=each.causes,
            pools=each.pools,
            teams=each.teams,
        )
        for each in config.routes
    ]
    routed = {name for route in routes for name in route.channels}
    if LOG not in routed:
        routes.append(AlertRoute(channels=(LOG,), severities=()))
    if not config.routes and rules:
        routes.append(AlertRoute(channels=tuple(rules)))
    return AlertRouting(
        channels={LOG: ChannelRules(messages_per_hour=3600), **rules},
        routes=routes,
        group_wait=config.group_wait,
        group_interval=config.group_interval,
    )


def to_rules(config: ChannelConfig) -> ChannelRules:
    """Return what a channel receives."""
    return ChannelRules(
        resolves=config.resolved,
        repeat=config.repeat,
        messages_per_hour=config.messages_per_hour,
    )
