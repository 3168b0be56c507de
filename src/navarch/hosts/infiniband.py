"""Ports of InfiniBand and RoCE adapters, from `/sys/class/infiniband`."""

from collections.abc import Iterator
from pathlib import Path

from navarch.hosts.sysfs import names, number, word
from navarch.ports.host import NetworkPort


def read_ports(sys: Path) -> Iterator[NetworkPort]:
    """Yield every port of every adapter."""
    adapters = sys / "class" / "infiniband"
    for adapter in names(adapters):
        for port in names(adapters / adapter / "ports"):
            yield _port(f"{adapter}/{port}", adapters / adapter / "ports" / port)


def _port(name: str, folder: Path) -> NetworkPort:
    return NetworkPort(
        name=name,
        state=_after_number(word(folder / "state")),
        physical=_after_number(word(folder / "phys_state")),
        rate=word(folder / "rate"),
        ethernet=word(folder / "link_layer") == "Ethernet",
        link_downed=number(folder / "counters" / "link_downed"),
        symbol_errors=number(folder / "counters" / "symbol_error"),
    )


def _after_number(text: str) -> str:
    """Return `ACTIVE` of `4: ACTIVE`."""
    return text.partition(":")[2].strip() or text
