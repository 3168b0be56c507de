"""Check results evaluated into a node's conditions."""

from datetime import timedelta

from navarch.core.health import CheckResult, Condition, Health
from navarch.health.conditions import TIMES_MAX, evaluate, explain, worst
from navarch.testing.worlds import NOW

BAD = CheckResult(check="gpu", health=Health.UNHEALTHY, reason="lost")
GOOD = CheckResult(check="gpu", health=Health.HEALTHY)
XID = CheckResult(check="xid/79/0", health=Health.UNHEALTHY, reason="fell off", lasting=True)
BOOT_OK = CheckResult(check="boot", health=Health.HEALTHY)


def after(*rounds: CheckResult, boot_id: str = "b1") -> tuple[Condition, ...]:
    conditions: tuple[Condition, ...] = ()
    for result in rounds:
        conditions = evaluate(conditions, [result], now=NOW, boot_id=boot_id)
    return conditions


def test_no_condition_is_healthy() -> None:
    assert worst(after(GOOD)) is Health.HEALTHY


def test_the_worst_condition_is_the_nodes_health() -> None:
    warm = CheckResult(check="heat", health=Health.DEGRADED)
    assert worst(after(warm)) is Health.DEGRADED
    assert worst(after(warm, BAD)) is Health.UNHEALTHY


def test_consecutive_reports_are_counted_and_keep_the_first_date() -> None:
    first = evaluate((), [BAD], now=NOW, boot_id="b")
    (second,) = evaluate(first, [BAD], now=NOW + timedelta(minutes=1), boot_id="b")
    assert (second.times, second.since) == (2, NOW)


def test_counting_stops_so_that_an_old_fault_no_longer_changes() -> None:
    many = after(*[BAD] * (TIMES_MAX + 5))
    assert many[0].times == TIMES_MAX
    assert evaluate(many, [BAD], now=NOW + timedelta(days=1), boot_id="b1") == many


def test_a_passing_check_clears_its_condition() -> None:
    assert after(BAD, GOOD) == ()


def test_a_check_that_fails_again_after_passing_counts_from_one() -> None:
    assert after(BAD, BAD, GOOD, BAD)[0].times == 1


def test_another_check_that_passes_clears_nothing() -> None:
    assert len(after(BAD, BOOT_OK)) == 1


def test_a_lasting_condition_survives_healthy_results() -> None:
    quiet = CheckResult(check=XID.check, health=Health.HEALTHY)
    assert worst(after(XID, quiet, quiet)) is Health.UNHEALTHY


def test_a_lasting_condition_ends_when_the_boot_check_passes_after_a_reboot() -> None:
    same_boot = evaluate(after(XID), [BOOT_OK], now=NOW, boot_id="b1")
    next_boot = evaluate(after(XID), [BOOT_OK], now=NOW, boot_id="b2")
    assert len(same_boot) == 1
    assert next_boot == ()


def test_a_failing_boot_check_after_a_reboot_clears_nothing() -> None:
    failing = CheckResult(check="boot", health=Health.UNHEALTHY, reason="7 of 8 GPUs")
    assert len(evaluate(after(XID), [failing], now=NOW, boot_id="b2")) == 2


def test_a_milder_result_does_not_soften_a_lasting_condition() -> None:
    milder = CheckResult(check=XID.check, health=Health.DEGRADED, lasting=True)
    assert worst(after(XID, milder)) is Health.UNHEALTHY


def test_an_unknown_result_changes_nothing() -> None:
    unknown = CheckResult(check="gpu", health=Health.UNKNOWN)
    assert after(BAD, unknown) == after(BAD)
    assert after(unknown) == ()


def test_the_explanation_lists_the_worst_first() -> None:
    warm = CheckResult(check="heat", health=Health.DEGRADED, reason="86 C")
    assert explain(after(warm, BAD, BAD)) == "gpu: lost (2 times in a row); heat: 86 C"


def test_a_fault_that_recurs_after_a_reboot_is_not_cleared_by_the_boot_check() -> None:
    old = after(*[XID] * TIMES_MAX, boot_id="b1")
    (found,) = evaluate(old, [XID, BOOT_OK], now=NOW, boot_id="b2")
    assert found.boot_id == "b2"
