"""Channels to a gRPC server, in clear text (grpc://) or with TLS (grpcs://)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from navarch.core.errors import InvalidError
from navarch.http.tls import TlsPaths


def open_channel(
    scheme: str, target: str, options: Sequence[tuple[str, Any]], files: TlsPaths | None
) -> grpc.aio.Channel:
    """Return a channel to `target`; InvalidError for a file of TLS that cannot be read."""
    if scheme != "grpcs":
        return grpc.aio.insecure_channel(target, options=options)
    files = files or TlsPaths()
    if files.insecure:
        raise InvalidError("gRPC always verifies the certificate of the server; use --ca-file")
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_read(files.ca),
        private_key=_read(files.key),
        certificate_chain=_read(files.cert),
    )
    return grpc.aio.secure_channel(target, credentials, options=options)


def _read(file: Path | None) -> bytes | None:
    try:
        return None if file is None else file.read_bytes()
    except OSError as error:
        raise InvalidError(f"{file}: {error.strerror or error}") from error
