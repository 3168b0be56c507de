"""What pip installs: complete, without tests, and working in an empty virtual environment."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.support.distribution import (
    PROJECT,
    NoPackagesError,
    build,
    build_release,
    builder_missing,
    clean_environment,
)
from tests.support.fleet_process import FleetProcess

from navarch.core.version import VERSION

pytestmark = pytest.mark.skipif(builder_missing() is not None, reason=str(builder_missing()))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"), "wheel")


def contents(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    if tracked.returncode:
        pytest.skip(f"not a Git working tree: {tracked.stderr.strip()}")
    files = {
        path.removeprefix("src/")
        for path in tracked.stdout.splitlines()
        if (PROJECT / path).exists()
    }
    held = contents(wheel)
    assert {name for name in held if ".dist-info/" not in name} == files
    # Read at run time: a catalogue, a policy and a unit are no modules, which an import would miss.
    assert {
        "navarch/py.typed",
        "navarch/app/navarch-agent.service",
        "navarch/app/navarch.service",
        "navarch/catalogue/machines.csv",
        "navarch/health/policy/data/default.yaml",
        "navarch/health/xid/data/xid.csv",
    } <= held.keys()
    assert not [name for name in held if "/tests/" in name or "/test_" in name]


def test_the_version_of_the_wheel_is_the_one_that_the_program_prints(wheel: Path) -> None:
    assert wheel.name == f"navarch-{VERSION}-py3-none-any.whl"


def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(build(tmp_path / "sdist", "sdist"), tmp_path)
    again = build(tmp_path / "again", "wheel", tmp_path / f"navarch-{VERSION}")
    assert contents(again) == contents(wheel)


def run(programs: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run an installed program, away from the working tree."""
    return subprocess.run(
        [str(programs / words[0]), *words[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=programs,
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(programs.parent / "home")},
        timeout=60,
    )


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return clean_environment(tmp_path_factory.mktemp("base"), wheel)
    except NoPackagesError as error:
        pytest.skip(f"the packages cannot be had: {error}")


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("navarch", "--version"),
        ("navarch", "version"),
        ("navarch", "--help"),
        ("navarch", "agent", "--help"),
        ("navarch", "doctor"),
        ("navarch", "xid", "79"),
        ("navarch-node", "--help"),
        ("node-agent", "--help"),
    ],
    ids=" ".join,
)
def test_without_extras_the_agent_and_what_explains_it_work(base: Path, words: list[str]) -> None:
    ran = run(base, *words)
    assert ran.returncode == 0, ran.stderr
    if "ersion" in words[-1]:
        assert VERSION in ran.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("navarch", "serve"),
        ("control-plane",),
        ("navarch", "status"),
        ("navarch", "policy", "check", "x.yaml"),
        ("navarch", "sim", "run", "x.yaml"),
    ],
    ids=" ".join,
)
def test_without_extras_other_commands_name_the_extra_that_they_need(
    base: Path, words: list[str]
) -> None:
    ran = run(base, *words)
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert "needs the extra server (the Python package " in line
    assert "package google " not in line, "PyPI has it under another name"
    assert "pip install 'navarch[server]'" in line


@pytest.mark.long
def test_a_release_serves_the_agent_for_every_python_that_it_lists(tmp_path: Path) -> None:
    try:
        release = build_release(tmp_path / "release", agent_wheels=True)
        (file,) = release.glob("*.whl")
        programs = clean_environment(tmp_path / "installed", file)
    except NoPackagesError as error:
        pytest.skip(f"the packages cannot be had: {error}")
    program = (
        "from navarch.app.agent_bundle import build_bundle, pins, supported_abis\n"
        "assert supported_abis() >= pins().keys(), supported_abis()\n"
        "assert set(build_bundle().abis) >= pins().keys()\n"
        "print(len(pins()))"
    )
    ran = run(programs, "python", "-c", program)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) >= 8


@pytest.fixture(scope="module")
def full(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return clean_environment(tmp_path_factory.mktemp("full"), wheel, extras="cli,server")
    except NoPackagesError as error:
        pytest.skip(f"the packages cannot be had: {error}")


class InstalledServer(FleetProcess):
    """A control plane that runs from the wheel."""

    words: tuple[str, ...] = ()

    def command(self) -> list[str]:
        ports = (f"--address=127.0.0.1:{self.port}", f"--grpc-address=127.0.0.1:{self.grpc_port}")
        return [*self.words, *ports]


@pytest.mark.long
@pytest.mark.parametrize("program", ["navarch serve", "control-plane"])
def test_an_agent_of_the_base_install_registers_with_an_installed_control_plane(
    base: Path, full: Path, tmp_path: Path, program: str
) -> None:
    server = InstalledServer(tmp_path)
    server.words = (str(full / program.split()[0]), *program.split()[1:])
    server.start()
    agent = subprocess.Popen(
        [str(base / "navarch-node"), f"--server={server.url}", "--node-id=box-1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "STATE_DIRECTORY": str(tmp_path / "agent")},
    )
    try:
        words = ("navarch", "-s", server.url, "get", "box-1")
        server.until(lambda: run(full, *words).returncode == 0)
    finally:
        agent.terminate()
        assert agent.wait(timeout=30) == 0
        assert server.stop() == 0, server.log.read_text()
