"""Ed25519 signatures, and public keys as PEM files that OpenSSL reads."""

import re
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from navarch.core.errors import InvalidError

_BLOCK = re.compile(rb"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL)


class Ed25519:
    """Signs with keys made from 32 secret bytes."""

    def public_of(self, secret: bytes) -> bytes:
        """Return the public key of a secret."""
        return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()

    def sign(self, secret: bytes, message: bytes) -> bytes:
        """Return the signature of a message."""
        return Ed25519PrivateKey.from_private_bytes(secret).sign(message)

    def to_pem(self, public: bytes) -> str:
        """Return a public key as PEM."""
        key = Ed25519PublicKey.from_public_bytes(public)
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def verify(public: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether the owner of a public key has signed a message."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def read_pem(text: bytes) -> Sequence[bytes]:
    """Return the public keys in a PEM file; raise InvalidError if there is none, or another kind.

    Lines between the keys are comments.
    """
    found = []
    for block in _BLOCK.findall(text):
        if b"PRIVATE" in block:
            raise InvalidError("it holds a private key; give the public key only")
        try:
            key = load_pem_public_key(block)
        except ValueError as error:
            raise InvalidError(f"it holds a key that cannot be read: {error}") from error
        if not isinstance(key, Ed25519PublicKey):
            raise InvalidError("it holds a key of another kind than Ed25519")
        found.append(key.public_bytes_raw())
    if not found:
        raise InvalidError("it holds no public key in PEM form")
    return found
