"""The port through which alerts reach people."""

from typing import Protocol

from navarch.core.alert import AlertMessage


class AlertChannel(Protocol):
    """One way to reach people: a log, a webhook, a service such as PagerDuty.

        class Console:
            name = "console"

            async def send(self, message: AlertMessage) -> str:
                print(message.action, message.title)
                return "printed"

    Every message is sent at least once. A repetition has the same `id`, and all messages about one
    group of alerts have the same `dedup_key`. A channel may take as long as it likes: nothing waits
    for it but its own next message.
    """

    @property
    def name(self) -> str:
        """The name by which routes and operators refer to it."""

    async def send(self, message: AlertMessage) -> str:
        """Deliver `message`; return what the service answered, for the delivery log.

        Raises AlertDeliveryError if the service did not accept it: it is sent again later. Neither
        the answer nor an error contains a secret.
        """
