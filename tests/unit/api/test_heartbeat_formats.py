"""The readers of heartbeats, beside the protobuf library."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.heartbeats import GpuLoad, SampleBeat, connect_json

from navarch.api.heartbeat_formats import (
    read_any_connect_json,
    read_connect_proto,
    read_plain_connect_json,
)
from navarch.api.heartbeats import GPUS_MAX, Heartbeat
from navarch.core.errors import InvalidError
from navarch.wire.reference import navarch_pb2 as reference

PLAIN = SampleBeat(node="gpu-1", gpus=[GpuLoad(), GpuLoad(temperature_c=0), GpuLoad(power_w=1)])
KEYS = [
    "nodeId",
    "node_id",
    "timestamp",
    "metrics",
    "cpuUsagePercent",
    "memoryUsagePercent",
    "gpuMetrics",
    "gpu_metrics",
    "gpuIndex",
    "temperature",
    "powerUsage",
    "utilizationPercent",
    "memoryUsed",
    "memory_used",
    "shoeSize",
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["7", "-7", "007", "7.0", "NaN", "Infinity", "", " 7", "1e3", "x", "a\0b"]),
    st.sampled_from(
        [
            "2026-01-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-02-28T24:00:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01t00:00:00z",
            "2026-01-01T00:00:00.123456789Z",
            "2026-01-01T00:00:00.1234567890Z",
            "2026-01-01T00:00:00+01:00",
            "2026-01-01 00:00:00Z",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
        ]
    ),
    st.text(max_size=4),
)


@st.composite
def altered(draw: st.DrawFn) -> bytes:
    """Draw the JSON of a heartbeat in which a few values, keys or bytes are others."""
    beat = json.loads(connect_json(PLAIN))
    places = [beat, beat["metrics"], *beat["metrics"]["gpuMetrics"]]
    for place, key, value in draw(
        st.lists(st.tuples(st.sampled_from(places), st.sampled_from(KEYS), scalars), max_size=3)
    ):
        place[key] = value
    text = json.dumps(beat, ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        extra = draw(st.sampled_from(['"temperature": 5, ', '"nodeId":"b",', " ", "\n", ",", "{"]))
        text = text[:at] + extra + text[at:]
    return text.encode(errors="surrogatepass")


@given(altered())
def test_the_short_way_reads_what_the_library_reads_or_leaves_it_to_the_library(
    body: bytes,
) -> None:
    found = read_plain_connect_json(body)
    if found is not None:
        assert found == read_any_connect_json(body)


def test_the_short_way_reads_what_agents_send() -> None:
    chance = Random(1)
    for _ in range(50):
        gpus = [
            GpuLoad(
                temperature_c=chance.randrange(100),
                power_w=chance.randrange(700),
                utilization_pct=chance.uniform(0, 100),
                memory_used_mib=chance.randrange(80_000),
            )
            for _ in range(chance.randrange(9))
        ]
        body = connect_json(SampleBeat(node="gpu-1", gpus=gpus))
        assert isinstance(read_plain_connect_json(body), Heartbeat)


@pytest.mark.parametrize(
    "wrong",
    [
        b'{"nodeId": "a", "timestamp": "2026-02-30T00:00:00Z"}',
        b'{"nodeId": "a", "metrics": {"gpuMetrics": [{"memoryUsed": "9223372036854775808"}]}}',
        b'{"nodeId": "a", "metrics": {"gpuMetrics": [{"temperature": 2147483648}]}}',
    ],
)
def test_what_the_library_refuses_is_not_read_the_short_way(wrong: bytes) -> None:
    assert read_plain_connect_json(wrong) is None
    with pytest.raises(InvalidError):
        read_any_connect_json(wrong)


def test_a_heartbeat_of_the_go_system_with_too_many_gpus_is_refused_as_it_is_read() -> None:
    def of(gpus: int) -> bytes:
        metrics = reference.NodeMetrics(gpu_metrics=[reference.GPUMetrics()] * gpus)
        return reference.HeartbeatRequest(node_id="gpu-1", metrics=metrics).SerializeToString()

    assert len(read_connect_proto(of(GPUS_MAX)).readings or b"") == GPUS_MAX * 4 * 4
    with pytest.raises(InvalidError, match=r"gpu_metrics: 65 is above the limit of 64"):
        read_connect_proto(of(GPUS_MAX + 1))
