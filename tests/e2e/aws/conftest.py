"""EC2 on this machine, and an account there."""

from collections.abc import Iterator

import pytest

from navarch.testing.ec2_server import ACCESS, Ec2Server, ec2_server


@pytest.fixture(scope="module")
def running() -> Iterator[Ec2Server]:
    with ec2_server() as server:
        yield server


@pytest.fixture
def ec2(running: Ec2Server, monkeypatch: pytest.MonkeyPatch) -> Ec2Server:
    for name, value in ACCESS.items():
        monkeypatch.setenv(name, value)
    running.reset()
    return running
