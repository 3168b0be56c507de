"""Alerts by e-mail, through an SMTP server."""

import hashlib
import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from enum import StrEnum

from navarch.core.alert import AlertMessage
from navarch.core.errors import AlertDeliveryError
from navarch.notifiers.alerts.http import MASK
from navarch.notifiers.alerts.text import describe, one_line, shorten
from navarch.ports.clock import Offload

SUBJECT_MAX = 200


class MailSecurity(StrEnum):
    """How the connection to the mail server is encrypted."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """An SMTP server, and how to log in."""

    host: str
    port: int
    security: MailSecurity = MailSecurity.STARTTLS
    username: str = ""
    password: str = field(default="", repr=False)
    timeout: timedelta = timedelta(seconds=10)


class EmailChannel:
    """Sends each message to some people. The messages about one group are one thread."""

    def __init__(
        self,
        offload: Offload,
        *,
        name: str,
        server: MailServer,
        sender: str,
        recipients: Sequence[str],
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self._offload = offload
        self._server = server
        self._sender = sender
        self._recipients = tuple(recipients)
        self._context = context or ssl.create_default_context()

    async def send(self, message: AlertMessage) -> str:
        """Send `message`; some recipients that are refused do not keep it from the others."""
        mail = self._render(message)
        try:
            refused = await self._offload.run(lambda: self._deliver(mail))
        except smtplib.SMTPResponseException as error:
            raise self._error(error.smtp_code, error.smtp_error) from None
        except smtplib.SMTPRecipientsRefused as error:
            code, text = next(iter(error.recipients.values()))
            raise self._error(code, text) from None
        except (smtplib.SMTPException, OSError) as error:
            # A server without encryption or log-in is a matter of configuration.
            refused_for_good = isinstance(error, smtplib.SMTPNotSupportedError)
            raise AlertDeliveryError(
                self._masked(f"{type(error).__name__}: {error}"), refused=refused_for_good
            ) from None
        sent = f"accepted for {len(self._recipients) - len(refused)} recipients"
        return f"{sent}, refused for {', '.join(refused)}" if refused else sent

    def _deliver(self, mail: EmailMessage) -> list[str]:
        server, timeout_s = self._server, self._server.timeout.total_seconds()
        if server.security is MailSecurity.TLS:
            connection: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=timeout_s, context=self._context
            )
        else:
            connection = smtplib.SMTP(server.host, server.port, timeout=timeout_s)
        with connection:
            if server.security is MailSecurity.STARTTLS:
                connection.starttls(context=self._context)
            if server.username:
                connection.login(server.username, server.password)
            return list(connection.send_message(mail, self._sender, self._recipients))

    def _render(self, message: AlertMessage) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = shorten(one_line(message.title), SUBJECT_MAX)
        mail["From"] = self._sender
        mail["To"] = ", ".join(self._recipients)
        mail["Date"] = message.created_at
        domain = Address(addr_spec=self._sender).domain
        mail["Message-ID"] = _reference(message.id, domain)
        mail["References"] = _reference(message.dedup_key, domain)
        mail["Auto-Submitted"] = "auto-generated"
        footer = f"cluster {message.cluster}, group {message.group}, message {message.id}"
        lines = [message.title, *describe(message), footer]
        mail.set_content("\n\n".join(map(one_line, lines)) + "\n")
        return mail

    def _error(self, code: int, text: bytes | str) -> AlertDeliveryError:
        words = text.decode(errors="replace") if isinstance(text, bytes) else text
        return AlertDeliveryError(self._masked(f"{code} {words}"), refused=code >= 500)

    def _masked(self, text: str) -> str:
        password = self._server.password
        masked = text.replace(password, MASK) if password else text
        return shorten(one_line(masked), 300)


def _reference(text: str, domain: str) -> str:
    return f"<{hashlib.sha256(text.encode()).hexdigest()[:32]}@{domain}>"
