"""A table is a dictionary that can be changed without being touched."""

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.records import Table

KEYS = st.integers(0, 60)
CHANGES = st.lists(st.dictionaries(KEYS, st.sampled_from([None, "a", "b"]), max_size=40))


@given(CHANGES)
def test_a_table_holds_what_a_dictionary_would(changes: list[dict[int, str | None]]) -> None:
    table: Table[int, str] = Table()
    model: dict[int, str] = {}
    for change in changes:
        table = table.with_changes(change)
        for key, value in change.items():
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        assert dict(table) == model
        assert len(table) == len(model)
        assert bool(table) is bool(model)
        assert all((key in table) == (key in model) for key in range(61))
        assert [table.get(key) for key in range(61)] == [model.get(key) for key in range(61)]
        assert all(table.get(key, "c") == model.get(key, "c") for key in range(61))


@given(CHANGES)
def test_older_tables_never_change(changes: list[dict[int, str | None]]) -> None:
    table: Table[int, str] = Table({1: "a"})
    past = [(table, dict(table))]
    for change in changes:
        table = table.with_changes(change)
        past.append((table, dict(table)))
    assert all(dict(old) == copy for old, copy in past)


@given(CHANGES)
def test_a_key_keeps_its_place_while_its_value_changes(
    changes: list[dict[int, str | None]],
) -> None:
    kept = dict.fromkeys(range(100, 140), "first")
    table: Table[int, str] = Table(kept)
    for change in changes:
        table = table.with_changes({**change, 120: "second"})
    assert [key for key in table if key >= 100] == list(kept)


@given(CHANGES)
def test_values_are_in_the_order_of_their_keys(changes: list[dict[int, str | None]]) -> None:
    table: Table[int, str] = Table(dict.fromkeys(range(0, 60, 7), "first"))
    for change in changes:
        table = table.with_changes(change)
        assert list(table.values()) == [table[key] for key in table]
