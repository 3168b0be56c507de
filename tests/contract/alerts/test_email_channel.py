"""The e-mail channel against a real SMTP server, with encryption and log-in."""

import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.channel_services import free_port

from navarch.core.alert import AlertAction
from navarch.notifiers.alerts.email import EmailChannel, MailSecurity, MailServer
from navarch.ports.alert_channel import AlertChannel
from navarch.sim.kernel.clock import InlineOffload
from navarch.testing.alert_channel_contract import (
    SECRET,
    AlertChannelContract,
    a_message,
    an_alert,
    ended,
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a key and a self-signed certificate of 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(encoding))
    return file


class Mailbox:
    """Keeps what the server accepts."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.fault = ""
        self.unknown: set[str] = set()

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, _server: object, _session: object, envelope: Envelope, address: str, _options: object
    ) -> str:
        if address in self.unknown:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - the library's name
        self, _server: object, _session: object, envelope: Envelope
    ) -> str:
        if self.fault:
            return self.fault
        content = envelope.content
        assert isinstance(content, bytes)
        self.mails.append(message_from_bytes(content, policy=policy.default))
        return "250 accepted"


def log_in(
    _server: object, _session: object, _envelope: object, _mechanism: str, data: LoginPassword
) -> AuthResult:
    return AuthResult(success=data.password.decode() == SECRET, handled=False)


class TlsController(Controller):
    """A controller that does not check with its own key whether it has started."""

    def _trigger_server(self) -> None:
        socket.create_connection((self.hostname, self.port), timeout=5).close()


class TestEmailChannel(AlertChannelContract):
    security = MailSecurity.STARTTLS

    @pytest.fixture
    def service(self, certificate: Path) -> Iterator[None]:
        yield from self.serve(certificate)

    def serve(self, certificate: Path) -> Iterator[None]:
        self.mailbox, self.port, self.password = Mailbox(), free_port(), SECRET
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
        self.trusted = ssl.create_default_context(cafile=str(certificate))
        is_tls = self.security is MailSecurity.TLS
        server = TlsController(
            self.mailbox,
            hostname="127.0.0.1",
            port=self.port,
            authenticator=log_in,
            auth_required=not is_tls,
            auth_require_tls=not is_tls,
            tls_context=None if is_tls else tls,
            ssl_context=tls if is_tls else None,
        )
        server.start()
        yield
        server.stop()

    def channel(self, *, timeout: timedelta = timedelta(seconds=10)) -> AlertChannel:
        server = MailServer(
            host="127.0.0.1",
            port=self.port,
            security=self.security,
            username="navarch",
            password=self.password,
            timeout=timeout,
        )
        return EmailChannel(
            InlineOffload(),
            name="mail",
            server=server,
            sender="navarch@example.com",
            recipients=["kim@example.com", "lee@example.com"],
            context=self.trusted,
        )

    def received(self) -> list[str]:
        return [f"{mail['Subject']}\n{mail.get_content()}" for mail in self.mailbox.mails]

    def refuse(self) -> None:
        self.mailbox.fault = f"554 your password {SECRET} is known to be used for spam"

    def overload(self) -> None:
        self.mailbox.fault = "451 try again later"

    def hang(self) -> None:
        self.silent = socket.create_server(("127.0.0.1", 0))
        self.port = self.silent.getsockname()[1]

    @pytest.mark.usefixtures("service")
    def test_messages_about_one_group_are_one_thread(self) -> None:
        alert = an_alert()
        self.send(a_message(alert))
        self.send(a_message(ended(alert), action=AlertAction.RESOLVE, number=2))
        first, second = self.mailbox.mails
        assert first["References"] == second["References"]
        assert first["Message-ID"] != second["Message-ID"]
        assert second["Subject"] == "[resolved] training-0: XID 79"

    @pytest.mark.usefixtures("service")
    def test_a_repetition_has_the_same_message_id(self) -> None:
        self.send(a_message())
        self.send(a_message())
        first, again = self.mailbox.mails
        assert first["Message-ID"] == again["Message-ID"]

    @pytest.mark.usefixtures("service")
    def test_a_subject_cannot_add_headers(self) -> None:
        self.send(a_message(an_alert(summary="x\r\nBcc: evil@example.com\r\n\r\nbody")))
        assert self.mailbox.mails[0]["Bcc"] is None

    @pytest.mark.usefixtures("service")
    def test_a_recipient_who_is_refused_does_not_keep_the_message_from_others(self) -> None:
        self.mailbox.unknown = {"lee@example.com"}
        answer = self.send(a_message())
        assert answer == "accepted for 1 recipients, refused for lee@example.com"
        self.mailbox.unknown |= {"kim@example.com"}
        assert self.fail().refused

    @pytest.mark.usefixtures("service")
    def test_a_wrong_password_is_refused(self) -> None:
        self.password = SECRET + "-wrong"
        assert self.fail().refused
        assert not self.mailbox.mails

    @pytest.mark.usefixtures("service")
    def test_a_server_with_another_certificate_receives_no_password(self) -> None:
        self.trusted = ssl.create_default_context()
        assert "certificate" in str(self.fail()).lower()
        assert not self.mailbox.mails

    def test_the_connection_may_be_encrypted_from_the_start(self, certificate: Path) -> None:
        self.security = MailSecurity.TLS
        with contextmanager(lambda: self.serve(certificate))():
            self.send(a_message())
            assert self.received()
