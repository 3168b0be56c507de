"""What the policies of a fleet do about an XID: over the wire and on the command line."""

import asyncio
from datetime import UTC, datetime

from click.testing import CliRunner, Result
from tests.support.local_api import build_local_api, call_app, serve_local_api

from navarch.cli.environment import CliEnvironment
from navarch.cli.main import navarch
from navarch.config.policy import parse_policy
from navarch.core.ids import PoolName
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.health.policy.trial import rule_on_xid

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
FLEET = """
version: v1
metadata: {name: house}
rules:
  - name: third
    condition: event.metrics.xid_code == 31
    count: 3
    within: 1h
    result: unhealthy
    fatal: true
    action: reset_gpu
  - name: at-boot
    condition: event.metrics.xid_code == 31
    phases: [booting]
    result: unhealthy
    action: replace
"""
LENIENT = """
version: v1
metadata: {name: lenient}
rules:
  - {name: ignore, condition: event.metrics.xid_code == 79, result: healthy, action: none}
"""


def policies() -> PolicySet:
    lenient = parse_policy(LENIENT)
    return compile_policies(
        parse_policy(FLEET), {PoolName(name): lenient for name in ("research", "batch")}
    )


def outcomes(code: int, *, of: PolicySet) -> list[tuple[str, str, int, str, str]]:
    return [
        (",".join(x.pools), x.phase, x.times, str(x.health), x.rule)
        for x in rule_on_xid(of, code, "", NOW)
    ]


def test_a_trial_shows_the_verdict_and_where_repetition_or_the_phase_change_it() -> None:
    found = outcomes(31, of=compile_policies(parse_policy(FLEET)))

    assert found == [
        ("", "busy", 1, "healthy", ""),
        ("", "busy", 3, "unhealthy", "third"),
        ("", "booting", 1, "unhealthy", "at-boot"),
    ]


def test_a_trial_covers_the_policies_of_pools() -> None:
    found = outcomes(79, of=policies())

    assert ("", "busy", 1, "unhealthy", "") in found
    assert ("batch,research", "busy", 1, "healthy", "ignore") in found


def test_trials_do_not_count_towards_the_rules_of_the_fleet() -> None:
    fleet = compile_policies(parse_policy(FLEET))
    first = outcomes(31, of=fleet)

    assert [outcomes(31, of=fleet) for _ in range(5)] == [first] * 5


def typed(server: str, words: str) -> Result:
    environment = CliEnvironment(environ={})
    return CliRunner().invoke(navarch, ["--server", server, *words.split()], obj=environment)


def test_xid_says_what_the_policies_of_the_fleet_do() -> None:
    async def main() -> None:
        known = policies()
        async with serve_local_api(build_local_api(policies=lambda: known)) as local:
            shown = await asyncio.to_thread(typed, local.http_url, "xid 31")
            data = await asyncio.to_thread(typed, local.http_url, "xid 79 -o json")
            grpc = await asyncio.to_thread(typed, local.grpc_url, "xid 79")

        assert "this fleet:   healthy" in shown.stdout
        assert "unhealthy, fatal, reset gpu (3 times; rule third of policy house)" in shown.stdout
        assert "pools batch, research: healthy" in shown.stdout
        assert '"rule": "ignore"' in data.stdout
        assert "this fleet:   unknown (policies are not available over gRPC" in grpc.stdout

    asyncio.run(main())


def test_xid_explains_the_code_also_without_a_server() -> None:
    result = typed("http://127.0.0.1:9", "xid 79")

    assert result.exit_code == 0
    assert "fallen off the bus" in result.stdout
    assert "this fleet:   unknown (http://127.0.0.1:9 cannot be reached" in result.stdout


def test_a_code_that_is_no_number_is_refused() -> None:
    async def main() -> list[int]:
        app = build_local_api().app
        replies = [await call_app(app, "GET", f"/v1/xids/{code}") for code in ("7x", "0")]
        return [reply.status for reply in replies]

    assert asyncio.run(main()) == [400, 400]
