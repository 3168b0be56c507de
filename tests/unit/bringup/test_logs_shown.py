"""Bring-up logs: their rendering, and their storage across restarts."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from test_bringup_policy import an_attempt

from navarch.cli.logs import render_bringups
from navarch.core.bringup import LOGS_MAX, CommandLog
from navarch.core.ids import NodeId
from navarch.sim.kernel.clock import InlineOffload
from navarch.stores.evidence import FolderBringUpLogs
from navarch.testing.worlds import NOW

NODE = NodeId("training-0")
FAILED = an_attempt(
    3,
    ended_at=NOW + timedelta(seconds=2.1),
    waited_s=41.0,
    error="command 2 failed: exit code 100",
    commands=(
        CommandLog(command="prepare {{.NodeID}}", exit_code=0, stdout="ready\n", duration_s=0.1),
        CommandLog(command="install", exit_code=100, stderr="no lock\nbye\n", duration_s=2.0),
    ),
)


def test_an_attempt_is_shown_command_by_command() -> None:
    assert render_bringups([FAILED], attempts=3) == (
        "Attempt 3 of 3, 2026-01-01 12:00:00 UTC, at 203.0.113.7: failed after 2.1 s\n"
        "  SSH was reachable after 41 s\n"
        "  $ prepare {{.NodeID}}\n"
        "    exit 0, 0.1 s\n"
        "    | ready\n"
        "  $ install\n"
        "    exit 100, 2.0 s\n"
        "    ! no lock\n"
        "    ! bye\n"
        "  command 2 failed: exit code 100"
    )


def test_a_node_that_was_never_set_up_has_a_message() -> None:
    assert "no commands were run on this machine" in render_bringups([], attempts=0)


def test_log_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    async def story() -> None:
        await FolderBringUpLogs(tmp_path, InlineOffload()).keep(replace(FAILED, ended_at=None))
        await FolderBringUpLogs(tmp_path, InlineOffload()).keep(FAILED)
        assert await FolderBringUpLogs(tmp_path, InlineOffload()).list(NODE) == [FAILED]
        for number in range(LOGS_MAX + 5):
            log = an_attempt(number, started_at=NOW + timedelta(minutes=number))
            await FolderBringUpLogs(tmp_path, InlineOffload()).keep(log)
        kept = await FolderBringUpLogs(tmp_path, InlineOffload()).list(NODE)
        assert [log.attempt for log in kept] == list(range(5, LOGS_MAX + 5))

    asyncio.run(story())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
