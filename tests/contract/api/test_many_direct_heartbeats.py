"""Many connections of heartbeats, the direct and the ordinary way."""

import pytest
from hypothesis import given, settings
from tests.support.direct_heartbeats import compare, reads


@pytest.mark.long
@settings(max_examples=1500, deadline=None)
@given(reads())
def test_both_ways_are_the_same_for_many_connections(arrived: list[tuple[bytes, bool]]) -> None:
    compare(arrived)
