"""The channels of a configuration, built, and rebuilt when it is reloaded."""

from collections.abc import Mapping, Sequence

from navarch.clock import ThreadOffload
from navarch.config.alerts import (
    LOG,
    AlertmanagerChannelConfig,
    AlertsConfig,
    ChannelConfig,
    EmailChannelConfig,
    PagerDutyChannelConfig,
    SlackChannelConfig,
    WebhookChannelConfig,
    to_routing,
)
from navarch.config.secret import Secret
from navarch.control.alerts import AlertSetup
from navarch.fleet.alerts.outbox import AlertRouting, ChannelRules
from navarch.notifiers.alerts.alertmanager import AlertmanagerChannel
from navarch.notifiers.alerts.email import EmailChannel, MailServer
from navarch.notifiers.alerts.log import LogChannel
from navarch.notifiers.alerts.pagerduty import PagerDutyChannel
from navarch.notifiers.alerts.slack import SlackChannel
from navarch.notifiers.alerts.webhook import WebhookChannel
from navarch.ports.alert_channel import AlertChannel
from navarch.ports.clock import Clock, Offload


class AlertChannels:
    """Every channel, as the present configuration says."""

    def __init__(self, clock: Clock, more: Sequence[AlertChannel] = ()) -> None:
        """`more` are channels of extensions."""
        self._clock = clock
        self._fixed = {each.name: each for each in (LogChannel(LOG), *more)}
        self._rules = {each.name: ChannelRules() for each in more}
        self._config = AlertsConfig()
        self._threads: dict[str, ThreadOffload] = {}
        self.channels: Mapping[str, AlertChannel] = dict(self._fixed)
        self.routing: AlertRouting = to_routing(self._config, self._rules)

    def become(self, config: AlertsConfig) -> None:
        """Take over a configuration. A channel that is unchanged stays as it is."""
        built: dict[str, AlertChannel] = {}
        for name, each in config.channels.items():
            same = self._config.channels.get(name) == each and name in self.channels
            built[name] = self.channels[name] if same else self._build(each)
        self._config = config
        self.channels = {**built, **self._fixed}
        self.routing = to_routing(config, self._rules)

    def setup(self) -> AlertSetup:
        """Return what the controllers read in every round."""
        return AlertSetup(
            channels=lambda: self.channels,
            routing=lambda: self.routing,
            below_target_after=lambda: self._config.below_target_after,
        )

    def close(self) -> None:
        """End the threads."""
        for threads in self._threads.values():
            threads.close()

    def _build(self, config: ChannelConfig) -> AlertChannel:
        # Each has threads of its own: a service that hangs must not delay the other channels.
        threads = self._threads.get(config.name)
        if threads is None:
            threads = ThreadOffload(f"navarch-alerts-{config.name}", at_once=2)
            self._threads[config.name] = threads
        return build_channel(self._clock, threads, config)


def build_channel(clock: Clock, offload: Offload, config: ChannelConfig) -> AlertChannel:
    """Return the channel that a block describes."""
    match config:
        case WebhookChannelConfig():
            return WebhookChannel(
                clock,
                offload,
                name=config.name,
                url=config.url,
                secret=_revealed(config.secret),
                headers=_all_revealed(config.headers),
                timeout=config.timeout,
            )
        case SlackChannelConfig():
            url = _revealed(config.webhook_url)
            return SlackChannel(clock, offload, name=config.name, url=url, timeout=config.timeout)
        case PagerDutyChannelConfig():
            return PagerDutyChannel(
                clock,
                offload,
                name=config.name,
                routing_key=_revealed(config.routing_key),
                url=config.url,
                timeout=config.timeout,
            )
        case AlertmanagerChannelConfig():
            return AlertmanagerChannel(
                clock,
                offload,
                name=config.name,
                url=config.url,
                headers=_all_revealed(config.headers),
                timeout=config.timeout,
            )
        case EmailChannelConfig():
            return _email(offload, config)


def _email(offload: Offload, config: EmailChannelConfig) -> EmailChannel:
    server = MailServer(
        host=config.host,
        port=config.port,
        security=config.security,
        username=config.username or "",
        password=_revealed(config.password),
        timeout=config.timeout,
    )
    return EmailChannel(
        offload,
        name=config.name,
        server=server,
        sender=config.sender,
        recipients=config.recipients,
    )


def _revealed(secret: Secret | None) -> str:
    return secret.reveal() if secret is not None else ""


def _all_revealed(secrets: Mapping[str, Secret]) -> dict[str, str]:
    return {name: value.reveal() for name, value in secrets.items()}
