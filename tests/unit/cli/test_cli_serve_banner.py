"""What a server says to the person who has started it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from navarch.app.addresses import Address
from navarch.cli.serve import render_banner


def banner(*, can_buy: bool) -> str:
    running: Any = SimpleNamespace(
        http=Address(host="127.0.0.1", port=50051),
        grpc=Address(host="127.0.0.1", port=50052),
        guarded=True,
        nodes=0,
        can_buy=can_buy,
    )
    return render_banner(running, Path("state"))


@pytest.mark.parametrize("can_buy", [False, True])
def test_machines_are_offered_only_by_a_server_that_can_buy_them(can_buy: bool) -> None:
    said = banner(can_buy=can_buy)

    assert ("navarch up " in said) is can_buy
    assert ("--config FILE" in said) is not can_buy
