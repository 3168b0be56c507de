"""Ctrl-C ends a command that waits, and the command states what the server continues to do."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.fleet_process import FleetProcess

from navarch.core.ids import PoolName

SLOW = """
server: {heartbeat_interval: 1s, health_check_interval: 1s}
providers:
  fake: {type: fake, boot_min: 10m, boot_max: 20m}
"""


@pytest.fixture
def server(tmp_path: Path) -> FleetProcess:
    return FleetProcess(tmp_path, config=SLOW)


def interrupted(server: FleetProcess, *words: str, when: str) -> tuple[int, str]:
    """Run a command, send it SIGINT once it prints `when`; return its status and its messages."""
    process = subprocess.Popen(
        [sys.executable, "-m", "navarch.cli", "-s", server.url, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    text = ""
    while when not in text:
        line = process.stderr.readline()
        assert line, text
        text += line
    process.send_signal(signal.SIGINT)
    text += process.communicate(timeout=30)[1]
    return process.returncode, text.rstrip()


def test_an_interrupt_states_what_goes_on_and_how_to_undo_it(server: FleetProcess) -> None:
    server.start()
    try:
        code, text = interrupted(
            server, "up", "--gpus=8", "--type=h100", "--name=demo", "--wait", when="demo-0"
        )
        assert code == 130
        assert "No longer waiting. The server still brings up pool demo." in text
        assert text.endswith("Undo it: navarch down demo")
        assert server.ask(lambda api: api.get_pool(PoolName("demo"))).size == 1
    finally:
        server.stop()


def test_a_terminal_is_asked_before_machines_are_terminated(server: FleetProcess) -> None:
    server.start()
    try:
        server.navarch("up", "--gpus=16", "--type=h100", "--name=demo")
        screen, keyboard = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "navarch.cli", "-s", server.url, "down", "demo"],
            stdin=keyboard,
            stdout=keyboard,
            stderr=keyboard,
        )
        os.close(keyboard)
        shown = ""
        while "Delete pool demo? [y/N]:" not in shown:
            shown += os.read(screen, 4096).decode()
        assert "This drains and terminates 2 nodes with 16 GPUs" in shown
        os.write(screen, b"n\n")
        assert process.wait(timeout=30) == 130
        os.close(screen)
        assert server.ask(lambda api: api.get_pool(PoolName("demo"))).size == 2
    finally:
        server.stop()


def test_an_interrupted_growth_is_undone_without_the_loss_of_the_nodes_before_it(
    server: FleetProcess,
) -> None:
    server.start()
    try:
        up = ("up", "--type=h100", "--name=demo")
        assert server.navarch(*up, "--gpus=8").returncode == 0
        _, text = interrupted(server, *up, "--gpus=24", "--wait", when="demo-2")
        undo = "navarch up --gpus 8 --type h100 --name demo"
        assert text.endswith(f"Undo it: {undo}")
        assert server.navarch(*undo.split()[1:]).returncode == 0
        assert server.ask(lambda api: api.get_pool(PoolName("demo"))).size == 1
        _, text = interrupted(server, *up, "--gpus=8", "--wait", when="demo-0")
        assert text.endswith("See how far it is: navarch status")
    finally:
        server.stop()
