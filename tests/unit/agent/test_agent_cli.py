"""The command line: errors are one sentence."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from navarch.agent.spool.disk import FolderDisk
from navarch.cli.agent import agent


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ["--server", "localhost:50051"],
            "must start with one of grpc://, grpcs://, http://, https://",
        ),
        (["--server", "ftp://x"], "must start with one of"),
        (["--server", "http://h:port"], "is not an address"),
        (["--label", "nonsense"], "'nonsense' is not KEY=VALUE"),
        (["--simulated-gpus", "-1"], "--simulated-gpus"),
        (["--simulated-gpus", "many"], "not a valid integer"),
        (["--auth-token", "two words"], "printable ASCII without spaces"),
        (["--auth-token-file", "nowhere"], "nowhere"),
        (["--what"], "No such option"),
    ],
)
def test_an_invalid_flag_is_explained_and_exits_with_status_two(
    flags: list[str], words: str
) -> None:
    result = CliRunner().invoke(agent, flags)

    assert result.exit_code == 2
    assert words in result.output


def test_an_invalid_count_in_the_environment_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAVARCH_FAKE_GPU", "true")
    monkeypatch.setenv("NAVARCH_GPU_COUNT", "some")

    result = CliRunner().invoke(agent, [])

    assert result.exit_code == 2
    assert "NAVARCH_GPU_COUNT is 'some'" in result.output


def test_a_state_directory_in_use_is_explained(tmp_path: Path) -> None:
    disk = FolderDisk(tmp_path)

    result = CliRunner().invoke(agent, ["--state-dir", str(tmp_path), "--simulated-gpus", "1"])

    assert result.exit_code == 1
    assert "in use by another agent; choose another --state-dir" in result.output
    disk.close()
