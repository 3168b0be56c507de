"""Sequences in stretches: as a list to whoever reads them, and shared where nothing changed."""

from hypothesis import given
from hypothesis import strategies as st

from navarch.core import stretches
from navarch.core.stretches import STRETCH_MAX, Register, Stretches

keys = st.integers(0, 12)
steps = st.lists(st.tuples(keys, st.one_of(st.none(), st.integers(0, 3))), max_size=40)


@given(steps, st.integers(1, 5))
def test_a_register_lists_what_a_dictionary_would(
    steps: list[tuple[int, int | None]], stretch: int
) -> None:
    usual = stretches.STRETCH_MAX
    stretches.STRETCH_MAX = stretch
    try:
        register: Register[int, int] = Register()
        plain: dict[int, int] = {}
        for key, value in steps:
            if value is None:
                register.drop(key)
                plain.pop(key, None)
            else:
                register.put(key, value)
                plain[key] = value
            listing = register.listing()
            assert list(listing) == list(plain.values())
            assert len(listing) == len(plain)
            assert listing[1:] == tuple(plain.values())[1:]
            assert [register.get(each) for each in range(13)] == [*map(plain.get, range(13))]
    finally:
        stretches.STRETCH_MAX = usual


def test_a_listing_is_the_same_object_until_something_changes() -> None:
    register: Register[int, str] = Register()
    register.put(1, "one")
    before = register.listing()
    assert register.listing() is before
    register.put(1, "uno")
    assert list(register.listing()) == ["uno"]
    assert list(before) == ["one"], "who holds an older listing still reads what it said"


def test_only_stretches_in_which_something_changed_are_made_anew() -> None:
    register: Register[int, int] = Register()
    for number in range(4 * STRETCH_MAX):
        register.put(number, number)
    before = register.listing()
    register.drop(STRETCH_MAX + 7)
    register.put(5 * STRETCH_MAX, 0)
    after = register.listing()
    assert len(before.stretches) == 4
    shared = [was is now for was, now in zip(before.stretches, after.stretches, strict=False)]
    assert shared == [True, False, True, True]
    assert after.stretches[4:] == ((0,),)
    assert len(after) == len(before)


def test_nothing_at_all_can_be_listed() -> None:
    assert list(Stretches()) == list(Register().listing()) == []
