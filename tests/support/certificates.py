"""Certificates made with the real openssl program."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


def openssl(*words: str | Path) -> str:
    """Run openssl and return its output."""
    done = subprocess.run(
        ["openssl", *map(str, words)], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


@dataclass(frozen=True)
class Issued:
    """A certificate with its key."""

    cert: Path
    key: Path

    @property
    def serial(self) -> str:
        return openssl("x509", "-in", self.cert, "-noout", "-serial").strip()


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.cert, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "30", "-subj", f"/CN={name}", "-out", self.cert),
            *("-keyout", self.key, "-addext", "basicConstraints=critical,CA:TRUE"),
        )

    def issue(self, name: str, *, names: str = "IP:127.0.0.1,DNS:localhost") -> Issued:
        """Return a new certificate with the subject and the alternative names."""
        made = Issued(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request, options = self.folder / "request.pem", self.folder / "options"
        options.write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-subj", f"/CN={name}", "-out", request, "-keyout", made.key),
        )
        openssl(
            *("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key),
            *("-CAcreateserial", "-days", "10", "-extfile", options, "-out", made.cert),
        )
        return made
