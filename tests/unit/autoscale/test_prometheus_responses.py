"""Responses of Prometheus: one number, or an error."""

import pytest

from navarch.core.errors import MetricsError
from navarch.meters.prometheus import parse_response


def vector(*values: str) -> bytes:
    series = ",".join(f'{{"metric":{{}},"value":[1700000000.1,"{value}"]}}' for value in values)
    return f'{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}'.encode()


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (vector("42.5"), 42.5),
        (b'{"status":"success","data":{"resultType":"scalar","result":[1.5,"7"]}}', 7.0),
    ],
)
def test_one_number_is_accepted(body: bytes, number: float) -> None:
    assert parse_response(body, "up") == number


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (vector(), "up: 0 series, not one; add `or vector(0)`"),
        (vector("1", "2"), "up: 2 series, not one; aggregate them"),
        (vector("NaN"), "NaN is not a valid amount"),
        (vector("+Inf"), "is not a valid amount"),
        (vector("-1"), "-1 is not a valid amount"),
        (vector("x"), "x is not a valid amount"),
        (b'{"status":"error","errorType":"bad_data","error":"parse error"}', "up: parse error"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "returns a matrix"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{}]}}', "value"),
        (b"<html>", "no result for up"),
        (b"", "no result for up"),
    ],
)
def test_anything_else_is_an_error_and_not_zero(body: bytes, words: str) -> None:
    with pytest.raises(MetricsError) as caught:
        parse_response(body, "up")

    assert words in str(caught.value)
