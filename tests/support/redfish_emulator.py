"""A real Redfish service: OpenStack's sushy-emulator with its machines without hypervisor."""

import importlib.util
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER, PASSWORD = "monitor", "s3cret:with colon"
START_S = 30.0


def emulator_missing() -> str:
    """Return why the emulator cannot run; empty if it can."""
    return "" if importlib.util.find_spec("sushy_tools") else "sushy-tools is not installed"


@dataclass(frozen=True, slots=True)
class RedfishEmulator:
    """A running emulator."""

    url: str
    ca_file: Path


@contextmanager
def redfish_emulator(folder: Path, systems: Mapping[str, str]) -> Iterator[RedfishEmulator]:
    """Run an emulator of machines, over TLS and with a login: `On` or `Off` by their UUID."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    certificate, private_key = a_certificate(folder)
    import bcrypt  # comes with the emulator

    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "users").write_text(f"{USER}:{hashed}\n")
    machines = [
        {"uuid": name, "name": f"machine {name}", "power_state": state, "nics": []}
        for name, state in systems.items()
    ]
    settings = {
        "SUSHY_EMULATOR_FAKE_DRIVER": True,
        "SUSHY_EMULATOR_FAKE_SYSTEMS": machines,
        "SUSHY_EMULATOR_LISTEN_IP": "127.0.0.1",
        "SUSHY_EMULATOR_LISTEN_PORT": port,
        "SUSHY_EMULATOR_SSL_CERT": str(certificate),
        "SUSHY_EMULATOR_SSL_KEY": str(private_key),
        "SUSHY_EMULATOR_AUTH_FILE": str(folder / "users"),
        "SUSHY_EMULATOR_STATE_DIR": str(folder),
    }
    config = folder / "emulator.conf"
    config.write_text("".join(f"{name} = {value!r}\n" for name, value in settings.items()))
    with (folder / "emulator.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sushy_tools.emulator.main", "--config", str(config)],
            env={**os.environ, "SUSHY_EMULATOR_CONFIG": str(config)},
            stdout=log,
            stderr=log,
        )
    try:
        emulator = RedfishEmulator(f"https://127.0.0.1:{port}", certificate)
        _wait(process, emulator, folder / "emulator.log")
        yield emulator
    finally:
        process.kill()
        process.wait()


def _wait(process: "subprocess.Popen[bytes]", emulator: RedfishEmulator, log: Path) -> None:
    tls = ssl.create_default_context(cafile=emulator.ca_file)
    deadline = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(f"{emulator.url}/redfish/v1", context=tls, timeout=5).close()
        except urllib.error.URLError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        else:
            return


def a_certificate(folder: Path) -> tuple[Path, Path]:
    """Return the files of a certificate for 127.0.0.1 that signs itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bmc")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, private_key = folder / "bmc.crt", folder / "bmc.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private_key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, private_key
