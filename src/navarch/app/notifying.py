"""Who is told before work is moved off a node."""

from contextlib import ExitStack

from navarch.app.extensions import Extensions
from navarch.clock.system import ThreadOffload
from navarch.config.server import NotifierConfig
from navarch.notifiers.everyone import Everyone
from navarch.notifiers.log import LogWorkloads
from navarch.notifiers.webhook import WebhookUrls, WebhookWorkloads
from navarch.ports.clock import Clock
from navarch.ports.notifier import WorkloadNotifier


def build_notifier(
    clock: Clock, config: NotifierConfig, extensions: Extensions, closing: ExitStack
) -> WorkloadNotifier:
    """Return everybody who is to be told, as one; the log if there is nobody else."""
    told = list(extensions.workload_notifiers)
    urls = _webhook(config)
    if urls is not None:
        threads = ThreadOffload("navarch-webhook")
        closing.callback(threads.close)
        told.append(WebhookWorkloads(clock, threads, urls))
    if len(told) > 1:
        return Everyone(told)
    return told[0] if told else LogWorkloads()


def _webhook(config: NotifierConfig) -> WebhookUrls | None:
    hook = config.webhook
    if hook is None or config.type != "webhook":
        return None
    return WebhookUrls(
        cordon=hook.cordon_url or "",
        uncordon=hook.uncordon_url or "",
        drain=hook.drain_url or "",
        drain_status=hook.drain_status_url or "",
        timeout=hook.timeout,
        headers={name: value.reveal() for name, value in hook.headers.items()},
    )
