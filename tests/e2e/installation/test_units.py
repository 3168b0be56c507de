"""systemd's own judgement of the units: they are valid, and as confined as they can be."""

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed"
)

UNITS = ("navarch.service", "navarch-agent.service")
EXPOSURE_MAX = {"navarch.service": 1.5, "navarch-agent.service": 6.2}
"""From 0 (fully confined) to 10. The agent is root and sees all devices."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the units, whose program exists."""
    for unit in UNITS:
        text = files("navarch.app").joinpath(unit).read_text("utf-8")
        (tmp_path / unit).write_text(text.replace("/opt/navarch/bin/navarch", "/bin/true"))
    return tmp_path


def analyze(*words: str) -> "subprocess.CompletedProcess[str]":
    command = ["systemd-analyze", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_each_unit_and_an_unknown_setting_is_noticed(
    folder: Path, unit: str
) -> None:
    path = folder / unit
    output = analyze("verify", str(path)).stderr
    assert unit not in output, output
    path.write_text(path.read_text().replace("UMask=", "Umask="))
    assert unit in analyze("verify", str(path)).stderr


@pytest.mark.parametrize("unit", UNITS)
def test_units_are_as_confined_as_their_work_permits(folder: Path, unit: str) -> None:
    words = ("security", "--offline=true", f"--threshold={int(EXPOSURE_MAX[unit] * 10)}")
    judged = analyze(*words, str(folder / unit))
    if "unrecognized option" in judged.stderr:
        pytest.skip("this systemd cannot judge units that are not loaded")
    assert judged.returncode == 0, judged.stdout[-400:]


def test_the_agent_keeps_what_its_checks_need(folder: Path) -> None:
    """Without these, a sound GPU looks broken, and its machine would be replaced."""
    listed = analyze(
        "security", "--offline=true", "--json=short", str(folder / "navarch-agent.service")
    )
    if listed.returncode:
        pytest.skip("this systemd cannot judge units that are not loaded")
    confined = {each["json_field"]: each["set"] for each in json.loads(listed.stdout)}
    for setting in (
        "PrivateDevices",
        "DeviceAllow",
        "ProtectClock",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectProc",
        "PrivateUsers",
        "MemoryDenyWriteExecute",
    ):
        assert not confined[setting], setting
    assert confined["RestrictNamespaces_user"]
