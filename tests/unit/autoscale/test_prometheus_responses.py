"""Responses of Prometheus: one number, or an error."""

import pytest

from navarch.core.errors import MetricsError
from navarch.meters.prometheus import parse_answer


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
    assert parse_answer(body, "up") == number


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (vector(), "up: 0 series, not one; add `or vector(0)`"),
        (vector("1", "2"), "up: 2 series, not one; aggregate them"),
        (vector("NaN"), "NaN is no amount"),
        (vector("+Inf"), "is no amount"),
        (vector("-1"), "-1 is no amount"),
        (vector("x"), "x is no amount"),
        (b'{"status":"error","errorType":"bad_data","error":"parse error"}', "up: parse error"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "gives a matrix"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{}]}}', "value"),
        (b"<html>", "no answer to up"),
        (b"", "no answer to up"),
    ],
)
def test_anything_else_is_an_error_and_not_zero(body: bytes, words: str) -> None:
    with pytest.raises(MetricsError) as caught:
        parse_answer(body, "up")

    assert words in str(caught.value)
