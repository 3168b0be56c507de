"""The CPU time to add up the costs of a million machines."""

import time
from datetime import timedelta
from decimal import Decimal

from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.launch import Launch
from navarch.core.records import evolve
from navarch.fleet.money.books import Books
from navarch.ports.api import CostBy
from navarch.testing.worlds import H100, NOW

HOUR = timedelta(hours=1)


def ledger(launches: int) -> dict[str, object]:
    """Enter so many machines of 100 pools, of ten teams, and add them up in every way."""
    books = Books()
    pattern = Launch(
        token=Token(""),
        node=NodeId("n"),
        pool=PoolName("p"),
        offering=H100,
        asked_at=NOW,
        launched_at=NOW,
        ended_at=NOW,
    )
    prices = [Decimal("98.32"), Decimal("31.07"), Decimal("0.333333")]
    began = time.process_time()
    spent = Decimal(0)
    for number in range(launches):
        start = NOW + timedelta(seconds=number)
        launch = evolve(
            pattern,
            token=Token(f"t-{number}"),
            instance=InstanceId(f"i-{number}"),
            pool=PoolName(f"pool-{number % 100}"),
            team=f"team-{number % 10}",
            price_per_hour=prices[number % 3],
            launched_at=start,
            ended_at=start + HOUR,
        )
        books.note(launch)
        spent += launch.price_per_hour
    entered_s = time.process_time() - began
    until = NOW + timedelta(seconds=launches) + HOUR
    asked_ms: dict[str, float] = {}
    wrong_by = Decimal(0)
    for by in CostBy:
        began = time.process_time()
        found = books.accounts(by, [], since=None, until=until)
        asked_ms[by.value] = round((time.process_time() - began) * 1000, 1)
        wrong_by = max(wrong_by, abs(sum(account.spent for account in found.values()) - spent))
    return {
        "launches": len(books),
        "entering_us_each": round(entered_s / launches * 1e6, 1),
        "cost_ms": asked_ms,
        "wrong_by": str(wrong_by),
    }
