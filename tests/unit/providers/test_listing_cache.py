"""Listed machines with unchanged bytes are not parsed again."""

import msgspec
import pytest

from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceStatus
from navarch.providers.rate_limit import ListingCache


class Reader:
    """Parses an entry and counts its calls."""

    def __init__(self) -> None:
        self.read: list[bytes] = []

    def __call__(self, words: bytes) -> Instance:
        self.read.append(words)
        return Instance(
            id=InstanceId(msgspec.json.decode(words, type=str)),
            provider=ProviderName("here"),
            status=InstanceStatus.RUNNING,
            instance_type="box",
        )


def entries(*names: str) -> list[msgspec.Raw]:
    return [msgspec.Raw(msgspec.json.encode(name)) for name in names]


def test_only_changed_entries_are_parsed() -> None:
    reader = Reader()
    cache = ListingCache(reader)
    first = cache.take(entries("a", "b"))
    second = cache.take(entries("b", "c", "a"))
    assert [machine.id for machine in second] == ["b", "c", "a"]
    assert second[0] is first[1]
    assert reader.read == [b'"a"', b'"b"', b'"c"']


def test_a_machine_that_returns_is_parsed_again_and_the_cache_stays_small() -> None:
    reader = Reader()
    cache = ListingCache(reader)
    for name in ("a", "b", "a"):
        cache.take(entries(name))
    assert reader.read == [b'"a"', b'"b"', b'"a"']


def test_an_unreadable_listing_leaves_the_cache_unchanged() -> None:
    reader = Reader()
    cache = ListingCache(reader)
    cache.take(entries("a"))
    with pytest.raises(msgspec.DecodeError):
        cache.take([*entries("b"), msgspec.Raw(b"17")])
    cache.take(entries("a", "b"))
    assert reader.read == [b'"a"', b'"b"', b"17", b'"b"']
