"""The heartbeat's codec, against Google's library and against random bytes."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.agent_messages import heartbeat_reply_bytes, parse_heartbeat

from navarch.agent.transport.protobuf import (
    MalformedError,
    heartbeat_bytes,
    parse_heartbeat_reply,
)
from navarch.core.ids import CommandId, NodeId
from navarch.core.instance import GpuMetrics, NodeMetrics
from navarch.core.recovery import Command, CommandKind
from navarch.wire.v1.agent_pb2 import HeartbeatRequest, HeartbeatResponse

NODE = NodeId("gpu-7")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIB = 1024.0 * 1024.0

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
gpus = st.builds(
    GpuMetrics,
    temperature_c=floats,
    power_w=floats,
    utilization_pct=floats,
    memory_used_bytes=st.integers(0, 1 << 24).map(lambda mib: mib * MIB),
)
readings = st.builds(
    NodeMetrics,
    cpu_pct=floats,
    memory_pct=floats,
    gpus=st.lists(gpus, max_size=16).map(tuple),
)
texts = st.text(st.characters(codec="utf-8"), max_size=30)
moments = st.integers(-(10**12), 10**13).map(lambda ms: EPOCH + timedelta(milliseconds=ms))
commands = st.builds(
    Command,
    id=texts.map(CommandId),
    node=st.just(NODE),
    kind=st.sampled_from(CommandKind),
    issued_at=moments,
    expires_at=moments,
    parameters=st.dictionaries(texts, texts, max_size=4),
)


@given(readings, st.integers(0, (1 << 64) - 1))
def test_heartbeats_match_googles_encoding_byte_for_byte(
    metrics: NodeMetrics, sequence: int
) -> None:
    theirs = HeartbeatRequest(
        node_id=NODE,
        sequence=sequence,
        cpu_pct=metrics.cpu_pct,
        memory_pct=metrics.memory_pct,
        temperature_c=[gpu.temperature_c for gpu in metrics.gpus],
        power_w=[gpu.power_w for gpu in metrics.gpus],
        utilization_pct=[gpu.utilization_pct for gpu in metrics.gpus],
        memory_used_mib=[gpu.memory_used_bytes / MIB for gpu in metrics.gpus],
    )

    assert heartbeat_bytes(NODE, metrics, sequence=sequence) == theirs.SerializeToString()


@given(st.lists(commands, max_size=4))
def test_replies_encoded_by_google_are_decoded(sent: list[Command]) -> None:
    theirs = HeartbeatResponse()
    for command in sent:
        theirs.commands.add(
            command_id=command.id,
            kind=command.kind.value,
            parameters=dict(command.parameters),
            issued_at_unix_ms=(command.issued_at - EPOCH) // timedelta(milliseconds=1),
            expires_at_unix_ms=(command.expires_at - EPOCH) // timedelta(milliseconds=1),
        )

    assert list(parse_heartbeat_reply(theirs.SerializeToString(), NODE).commands) == sent


def test_a_heartbeat_matches_stored_bytes_of_googles_library() -> None:
    """A field that is renumbered in `agent.proto` breaks the agents that run already."""
    metrics = NodeMetrics(
        cpu_pct=12.5,
        memory_pct=0.0,
        gpus=(
            GpuMetrics(
                temperature_c=41.0,
                power_w=70.5,
                utilization_pct=0.0,
                memory_used_bytes=512 * MIB,
            ),
            GpuMetrics(
                temperature_c=-1.5,
                power_w=700.0,
                utilization_pct=100.0,
                memory_used_bytes=0.0,
            ),
        ),
    )

    assert heartbeat_bytes(NODE, metrics, sequence=300).hex() == (
        "0a056770752d3710ac021d000048412a08000024420000c0bf320800008d4200002f44"
        "3a08000000000000c84242080000004400000000"
    )


@given(readings, st.integers(0, (1 << 64) - 1))
def test_a_heartbeat_can_be_read_back(metrics: NodeMetrics, sequence: int) -> None:
    raw = heartbeat_bytes(NODE, metrics, sequence=sequence)

    assert parse_heartbeat(raw) == (NODE, sequence, metrics)


@given(st.lists(commands, max_size=4))
def test_commands_can_be_read_back(sent: list[Command]) -> None:
    assert list(parse_heartbeat_reply(heartbeat_reply_bytes(sent), NODE).commands) == sent


def test_an_unknown_command_kind_is_named_and_the_others_are_kept() -> None:
    known = Command(
        id=CommandId("c1"),
        node=NODE,
        kind=CommandKind.DRAIN,
        issued_at=EPOCH,
        expires_at=EPOCH,
    )
    raw = heartbeat_reply_bytes([known]).replace(b"drain", b"dance") + heartbeat_reply_bytes(
        [known]
    )

    orders = parse_heartbeat_reply(raw, NODE)

    assert orders.unknown == ("dance",)
    assert orders.commands == (known,)


@given(st.binary(max_size=200))
def test_random_bytes_are_decoded_or_refused(noise: bytes) -> None:
    try:
        parse_heartbeat_reply(noise, NODE)
    except MalformedError:
        return


@given(st.lists(commands, min_size=1, max_size=3), st.data())
def test_a_truncated_reply_is_refused_or_shorter(sent: list[Command], data: st.DataObject) -> None:
    raw = heartbeat_reply_bytes(sent)
    cut = data.draw(st.integers(0, len(raw) - 1))
    try:
        orders = parse_heartbeat_reply(raw[:cut], NODE)
    except MalformedError:
        return
    assert list(orders.commands) == sent[: len(orders.commands)]
    assert len(orders.commands) < len(sent)


def test_fields_of_a_later_version_are_skipped() -> None:
    later = bytes.fromhex("7a03616263") + bytes.fromhex("8001ff01") + bytes.fromhex("8d0100000000")

    assert parse_heartbeat_reply(later, NODE).commands == ()


@pytest.mark.parametrize("value", [1e300, -1e300, float("inf"), float("nan")])
def test_readings_that_overflow_a_float_do_not_stop_a_heartbeat(value: float) -> None:
    assert heartbeat_bytes(NODE, NodeMetrics(cpu_pct=value), sequence=1)
