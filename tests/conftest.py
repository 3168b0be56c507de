"""Settings and fixtures of all tests."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings
from tests.support.ec2_server import ACCESS, Ec2Server, ec2_server
from tests.support.postgres_server import PostgresServer, missing_postgres, postgres_server

# Tests cause thousands of failures on purpose; their logs would hide the important output.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

# The gate must not depend on chance or load; `--hypothesis-profile=search` looks for new examples.
busy = [HealthCheck.too_slow]
settings.register_profile("gate", derandomize=True, deadline=None, suppress_health_check=busy)
settings.register_profile("search", max_examples=2000, deadline=None, suppress_health_check=busy)
settings.load_profile("gate")


@pytest.fixture(autouse=True)
def log_settings() -> Iterator[None]:
    """Undo what commands that run in this process configure about logs."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def ec2_running() -> Iterator[Ec2Server]:
    with ec2_server() as server:
        yield server


@pytest.fixture
def ec2(ec2_running: Ec2Server, monkeypatch: pytest.MonkeyPatch) -> Ec2Server:
    """Return the local EC2 in its initial state, with credentials in the environment."""
    for name, value in ACCESS.items():
        monkeypatch.setenv(name, value)
    ec2_running.reset()
    return ec2_running


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Return a real PostgreSQL server, or skip the test."""
    if (missing := missing_postgres()) is not None:
        pytest.skip(missing)
    with postgres_server() as server:
        yield server
