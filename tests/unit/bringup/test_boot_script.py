"""The boot script uses the agent that the control plane served, whole and unaltered, or none."""

import hashlib
import io
import sysconfig
import zipfile
from functools import cache
from pathlib import Path

import pytest
from tests.support.boot import (
    Answer,
    Machine,
    file_server,
    tampered,
    truncated,
    truncated_unnoticed,
    unavailable,
    whole,
)

from navarch.app.agent_bundle import AgentBundle, _installed, _packed, build_bundle
from navarch.app.bringup import install_bundle, render_user_data

ABI = str(sysconfig.get_config_var("SOABI"))
OTHER = "cpython-399-riscv64-linux-gnu"

the_bundle = cache(build_bundle)


def a_script(bundle: AgentBundle, url: str) -> str:
    return render_user_data({"NAVARCH_SERVER": url}, install_bundle(bundle, url))


def compiled_wheel() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as wheel:
        for path, data in _installed():
            if path.startswith("lib/msgspec/"):
                wheel.writestr(path.removeprefix("lib/"), data)
    return content.getvalue()


def without_compiled_code(**others: bytes) -> AgentBundle:
    """Return what a control plane with another Python serves."""
    members = {path: data for path, data in _installed() if not path.endswith(".so")}
    return AgentBundle(_packed({**members, **others}), (OTHER,))


def started(machine: Machine) -> bool:
    return machine.calls.exists() and "systemctl enable --now" in machine.calls.read_text()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_machine_installs_the_agent_and_starts_it(tmp_path: Path, shell: str) -> None:
    machine = Machine(tmp_path)
    with file_server(the_bundle().content, whole) as url:
        ran = machine.boot(a_script(the_bundle(), url), shell=shell)
        again = machine.boot(a_script(the_bundle(), url), shell=shell)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert again.returncode == 0
    assert started(machine)
    assert machine.agent.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("fault", [truncated, truncated_unnoticed, tampered, unavailable])
def test_a_bad_download_is_tried_again(tmp_path: Path, fault: Answer) -> None:
    machine = Machine(tmp_path)
    with file_server(the_bundle().content, fault, fault, whole) as url:
        ran = machine.boot(a_script(the_bundle(), url))
    assert ran.returncode == 0, ran.stderr
    assert "next attempt in 2 s" in ran.stderr
    assert started(machine)


@pytest.mark.parametrize("fault", [tampered, truncated_unnoticed])
def test_a_bundle_with_another_hash_is_never_unpacked(tmp_path: Path, fault: Answer) -> None:
    machine = Machine(tmp_path)
    with file_server(the_bundle().content, fault) as url:
        ran = machine.boot(a_script(the_bundle(), url))
    assert ran.returncode == 1
    assert f"its SHA-256 is not {the_bundle().sha256}" in ran.stderr.splitlines()[-1]
    assert "the agent is not installed" in ran.stderr.splitlines()[-1]
    assert not started(machine)
    assert not [file for file in machine.root.rglob("*") if file.suffix in (".py", ".gz")]


def test_a_server_that_stays_away_ends_the_script_after_twenty_attempts(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with file_server(b"", unavailable) as url:
        ran = machine.boot(a_script(the_bundle(), url))
    assert ran.returncode == 1
    assert "503: Service Unavailable (attempt 20, the last)" in ran.stderr
    pauses = [line for line in machine.calls.read_text().splitlines() if line[:5] == "sleep"]
    assert pauses[:7] == [f"sleep {pause}" for pause in (1, 2, 4, 8, 16, 30, 30)]
    assert not started(machine)


@pytest.mark.parametrize(
    ("python", "seen"),
    [("echo '3.10.12 '", "python3 is 3.10.12"), ("exit 1", "there is no python3")],
)
def test_a_machine_without_a_new_enough_python_states_it(
    tmp_path: Path, python: str, seen: str
) -> None:
    machine = Machine(tmp_path, python=python)
    script = a_script(the_bundle(), "http://127.0.0.1:1")
    # The machine has no other Python, whatever this one has.
    ran = machine.boot(script.replace("python3.15 python3.14 python3.13 python3.12 python3.11", ""))
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert "it needs Python 3.11 or newer, and on this machine " + seen in line
    assert "Ubuntu 24.04" in line
    assert not started(machine)


def test_the_bundle_may_contain_the_compiled_code_for_another_python(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    bundle = without_compiled_code(**{f"wheels/{ABI}.whl": compiled_wheel()})
    with file_server(bundle.content, whole) as url:
        ran = machine.boot(a_script(bundle, url))
    assert ran.returncode == 0, ran.stderr
    assert started(machine)


def test_compiled_code_comes_from_the_index_only_by_its_hash(tmp_path: Path) -> None:
    wheel = compiled_wheel()
    sha256 = hashlib.sha256(wheel).hexdigest()
    for name, answer, code in (("good", whole, 0), ("bad", tampered, 1)):
        machine = Machine(tmp_path / name)
        with file_server(wheel, answer) as index:
            listed = f"{OTHER} {'0' * 64} x\n{ABI} {sha256} {index}/a.whl\n".encode()
            bundle = without_compiled_code(**{"wheels.txt": listed})
            with file_server(bundle.content, whole) as url:
                ran = machine.boot(a_script(bundle, url))
        assert ran.returncode == code, ran.stderr
        assert started(machine) is (code == 0)


def test_a_machine_without_compiled_code_for_its_python_states_the_remedy(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    bundle = without_compiled_code()
    with file_server(bundle.content, whole) as url:
        ran = machine.boot(a_script(bundle, url))
    assert ran.returncode == 1
    assert f"there is no compiled code for {ABI}" in ran.stderr
    assert "server.agent_wheels" in ran.stderr
    assert "server.agent_index" in ran.stderr
    assert not started(machine)


def test_setup_commands_run_before_the_agent_is_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    order = tmp_path / "order"
    commands = (
        f"echo {{{{.NodeID}}}} {{{{.JoinToken}}}} > {order}",
        f"test ! -e {machine.agent} && echo second >> {order}",
    )
    variables = {"NAVARCH_NODE_ID": "it's-0", "NAVARCH_JOIN_TOKEN": "nvj1.x"}
    with file_server(the_bundle().content, whole) as url:
        script = render_user_data(variables, install_bundle(the_bundle(), url), commands=commands)
        ran = machine.boot(script)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert order.read_text() == "it's-0 nvj1.x\nsecond\n"
    assert started(machine)


def test_a_failed_setup_command_ends_the_script_and_is_not_repeated_in_the_log(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    script = render_user_data({}, "install", commands=("true", "false; : a-password"))
    ran = machine.boot(script)
    assert ran.returncode == 1
    assert ran.stderr == "navarch: setup command 2 ended with exit code 1\n"
    assert not started(machine)
