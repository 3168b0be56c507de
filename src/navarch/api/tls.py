"""TLS of the servers: certificates from files, replaced while connections go on."""

import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import structlog

from navarch.api.auth import ClientCertificate
from navarch.core.errors import InvalidError
from navarch.http.tls import MakeContext, explain, file_state
from navarch.ports.clock import Clock

_END_OF_PEM = "-----END CERTIFICATE-----"
LOOK_EVERY_S = 5.0
"""How often the files are looked at. Renewals replace them weeks before the old ones expire."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files of a server's certificate."""

    cert: Path
    key: Path
    client_ca: Path | None = None
    """The authorities of client certificates; None: clients are not asked for one."""
    clients_required: bool = False
    """Whether a client without a certificate is turned away."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    context: ssl.SSLContext
    cert_pem: bytes
    key_pem: bytes
    ca_pem: bytes | None


class ServerTls:
    """The certificate in use. New handshakes use the newest; connections live on."""

    def __init__(self, files: TlsFiles) -> None:
        """Raise InvalidError if a file cannot be used."""
        self._files = files
        self._seen = self._state()
        self._loaded = _load(files)
        self._failed: object = None
        self.context = _context(files)
        """For listeners: hands every handshake over to the newest certificate."""
        _require(self.context, files, self._loaded.context)
        self.context.sni_callback = self._take_newest

    async def run(self, clock: Clock) -> None:
        """Look at the files until cancelled."""
        while True:
            await clock.sleep(LOOK_EVERY_S)
            self.refresh()

    def refresh(self) -> bool:
        """Use the files if they have changed and fit together; return whether that was done."""
        seen = self._state()
        if seen == self._seen:
            return False
        try:
            self._loaded = _load(self._files)
        except InvalidError as error:
            # Often only the certificate is replaced so far, and its key follows.
            if self._failed != seen:
                log.warning("tls.not_reloaded", error=str(error), hint="the old one stays in use")
            self._failed = seen
            return False
        self._seen = seen
        log.info("tls.reloaded", certificate=str(self._files.cert))
        return True

    def certificate(self) -> str:
        """Return the certificate in use in PEM form, without those that signed it."""
        pem = self._loaded.cert_pem.decode("ascii", "replace")
        return pem[: pem.index(_END_OF_PEM) + len(_END_OF_PEM)] + "\n"

    def for_own_agents(self) -> MakeContext:
        """Return the settings of clients in this process: they trust this very certificate."""

        def make() -> ssl.SSLContext:
            context = ssl.create_default_context(cadata=self._loaded.cert_pem.decode("ascii"))
            # It may name any host, and its authority is none of ours.
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            return context

        return make

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of a gRPC server, which asks for the newest at each handshake."""
        required = self._files.client_ca is not None and self._files.clients_required
        return grpc.dynamic_ssl_server_credentials(
            self._for_grpc(),
            # Called in a thread of gRPC; what it reads is replaced as a whole.
            self._for_grpc,
            require_client_authentication=required,
        )

    def _for_grpc(self) -> grpc.ServerCertificateConfiguration:
        loaded = self._loaded
        return grpc.ssl_server_certificate_configuration(
            [(loaded.key_pem, loaded.cert_pem)], root_certificates=loaded.ca_pem
        )

    def _take_newest(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        # Also replaces the authorities of clients: they are checked later in the handshake.
        connection.context = self._loaded.context

    def _state(self) -> Sequence[tuple[int, ...] | None]:
        return [file_state(x) for x in (self._files.cert, self._files.key, self._files.client_ca)]


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if files.client_ca is not None:
        # A resumed session would skip the check of a certificate that is no longer trusted.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0
        context.verify_mode = ssl.CERT_REQUIRED if files.clients_required else ssl.CERT_OPTIONAL
    return context


def _require(base: ssl.SSLContext, files: TlsFiles, loaded: ssl.SSLContext) -> None:
    """Give a listener's own settings what a handshake needs before the newest are taken."""
    base.load_cert_chain(files.cert, files.key)
    assert base.verify_mode == loaded.verify_mode, "a handshake keeps the mode it begins with"


def _load(files: TlsFiles) -> _Loaded:
    """Return the contents of the files, or raise InvalidError if they cannot be used."""
    context = _context(files)
    path = files.cert
    try:
        cert_pem = files.cert.read_bytes()
        path = files.key
        key_pem = files.key.read_bytes()
        context.load_cert_chain(files.cert, files.key, password=_no_password)
        path = files.client_ca or path
        ca_pem = None if files.client_ca is None else files.client_ca.read_bytes()
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
    except (OSError, ValueError) as error:
        why = explain(error) if isinstance(error, OSError) else str(error)
        raise InvalidError(f"server.tls: {path}: {why}") from error
    return _Loaded(context, cert_pem, key_pem, ca_pem)


def _no_password() -> str:
    raise ValueError("the key has a password; store it without one, readable by the server only")


def certificate_of(peer: Mapping[str, Any] | None) -> ClientCertificate | None:
    """Return the verified certificate of a TLS client, as Python's `getpeercert` describes it."""
    if not peer:
        return None
    subject = {name: value for pairs in peer.get("subject", ()) for name, value in pairs}
    names = tuple(_alternative_names(peer.get("subjectAltName", ())))
    return ClientCertificate(common_name=subject.get("commonName", ""), names=names)


def _alternative_names(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    for kind, value in pairs:
        if kind in ("DNS", "URI", "email"):
            yield value


def grpc_certificate_of(auth: Mapping[str, Iterable[bytes]]) -> ClientCertificate | None:
    """Return the verified certificate of a gRPC client, from the context of its call."""
    shown = {name: [x.decode("utf-8", "replace") for x in values] for name, values in auth.items()}
    if shown.get("transport_security_type") != ["ssl"] or "x509_pem_cert" not in shown:
        return None
    common = shown.get("x509_common_name", [""])[0]
    names = tuple(shown.get("x509_subject_alternative_name", ()))
    return ClientCertificate(common_name=common, names=names)
