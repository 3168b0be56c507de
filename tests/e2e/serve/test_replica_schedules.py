"""Random schedules of faults lose and double nothing: some of `make bench-replicas`."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.replicas_judge import violations
from bench.replicas_stage import play_schedule
from tests.support.ec2_server import Ec2Server, ec2_server
from tests.support.postgres_server import missing_postgres

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(missing_postgres() is not None, reason=missing_postgres() or ""),
]

BY_LOAD = "slow_take_overs"
"""Tests share their cores with others; the benchmark measures take-overs."""


@pytest.fixture(scope="module")
def cloud() -> Iterator[Ec2Server]:
    with ec2_server() as server:
        yield server


@pytest.mark.parametrize("seed", range(10))
def test_a_random_schedule_of_faults_loses_and_doubles_nothing(
    seed: int, cloud: Ec2Server, tmp_path: Path
) -> None:
    played = asyncio.run(play_schedule(cloud, seed, tmp_path))

    found = violations(played.records)
    found.pop(BY_LOAD, None)
    assert not found, "\n".join([f"seed {seed}", *map(str, played.schedule), *played.log])
