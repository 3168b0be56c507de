"""Notifiers: how the system that places work on nodes is told about them."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum

from navarch.config.kinds import DURATION, HEADER, URL, Choice, MapOf
from navarch.config.nesting import Nested
from navarch.config.schema import Fault, block, key
from navarch.config.secret import Secret


class NotifierType(StrEnum):
    """The notifiers that are built in."""

    NOOP = "noop"
    WEBHOOK = "webhook"


@block()
class WebhookConfig:
    """Where to send what happens to a node. A URL that is left out is not called."""

    cordon_url: str | None = key(URL, default=None, doc="told that a node is cordoned")
    uncordon_url: str | None = key(URL, default=None, doc="told that a cordon is lifted")
    drain_url: str | None = key(URL, default=None, doc="told to move work off a node")
    drain_status_url: str | None = key(
        URL, default=None, doc="asked whether a node is empty; without it, it is held to be"
    )
    timeout: timedelta = key(
        DURATION, default=timedelta(seconds=30), doc="how long an answer may take"
    )
    headers: Mapping[str, Secret] = key(
        MapOf(each=HEADER), default_factory=dict, doc="sent with every call; kept secret"
    )


def _webhook_if_wanted(type: NotifierType, webhook: WebhookConfig | None) -> Iterator[Fault]:  # noqa: A002
    if type is NotifierType.WEBHOOK and webhook is None:
        yield Fault(
            at=("type",),
            message="a notifier of type webhook needs a webhook block",
            remedy="add webhook: with at least cordon_url and drain_url",
        )
    if type is NotifierType.NOOP and webhook is not None:
        yield Fault(
            at=("webhook",),
            message="the webhook block is not used, because type is not webhook",
            remedy="write type: webhook",
            warning=True,
        )
    if webhook and not (webhook.cordon_url or webhook.uncordon_url or webhook.drain_url):
        yield Fault(
            at=("webhook",),
            message="the webhook has no URL to call",
            remedy="set cordon_url, uncordon_url or drain_url",
        )


@block(rules=(_webhook_if_wanted,))
class NotifierConfig:
    """How workload systems are told."""

    type: NotifierType = key(
        Choice(options=NotifierType), default=NotifierType.NOOP, doc="which notifier"
    )
    webhook: WebhookConfig | None = key(
        Nested(cls=WebhookConfig), default=None, doc="what a webhook calls"
    )
