"""The fabric manager of a machine: the state of its unit, and its errors in the system's journal.

It is a service in user space, so nothing that claims to be from it in the kernel's log counts. The
journal's fields that begin with an underscore are written by journald and cannot be forged: they
name the unit and the run of it that a message came from.
"""

import re
import subprocess
from collections.abc import Iterator, Sequence

import msgspec

from navarch.health.xid.wrapper import message_of
from navarch.ports.host import FabricManager

UNIT = "nvidia-fabricmanager.service"
PROPERTIES = "LoadState,ActiveState,SubState,InvocationID"

ERRORS_SINCE = "-1h"
ENTRIES_MAX = 500
ERRORS_MAX = 20
ERROR_LENGTH_MAX = 300
DEADLINE_S = 5.0

_RUN = re.compile(r"[0-9a-f]{32}")
_PREFIX = re.compile(r"(?:\[[^\]]*\] *)*\[ERROR\] *(?:\[[^\]]*\] *)*")
"""The date, level and thread with which it begins the lines of its log, but not those of syslog."""
_SYSLOG_ERROR = 3
"""Lower numbers are worse."""


def read_fabric_manager(systemctl: str, journalctl: str) -> FabricManager | None:
    """Return the state and the latest errors of the fabric manager; None without its unit."""
    shown = _output([systemctl, "show", UNIT, f"--property={PROPERTIES}"])
    unit = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    if unit.get("LoadState") != "loaded":
        return None
    run = unit.get("InvocationID", "")
    errors: Sequence[str] = ()
    if _RUN.fullmatch(run):
        # What an earlier run reported was repaired by a restart, or is reported again.
        fields = (f"_SYSTEMD_UNIT={UNIT}", f"_SYSTEMD_INVOCATION_ID={run}")
        limits = (f"--since={ERRORS_SINCE}", f"--lines={ENTRIES_MAX}")
        entries = _output([journalctl, "--output=json", "--quiet", "--no-pager", *limits, *fields])
        errors = tuple(dict.fromkeys(parse_errors(entries, run)))[-ERRORS_MAX:]
    is_restarting = unit.get("SubState", "").startswith("auto-restart")
    state = "failed" if is_restarting else unit.get("ActiveState", "")
    return FabricManager(state=state, errors=tuple(errors))


def parse_errors(entries: str, run: str) -> Iterator[str]:
    """Yield the errors among journal entries, one JSON object per line, of one run of the unit."""
    for line in entries.splitlines():
        try:
            entry = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if not isinstance(entry, dict) or entry.get("_SYSTEMD_UNIT") != UNIT:
            continue
        text = message_of(entry.get("MESSAGE"))
        if entry.get("_SYSTEMD_INVOCATION_ID") != run or text is None:
            continue
        prefix = _PREFIX.match(text)
        level = str(entry.get("PRIORITY", ""))
        if prefix is not None or (level.isdecimal() and int(level) <= _SYSLOG_ERROR):
            yield text[prefix.end() if prefix else 0 :].strip()[:ERROR_LENGTH_MAX]


def _output(command: Sequence[str]) -> str:
    """Return what a tool printed; nothing if it is missing, fails or does not end in time."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=DEADLINE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
