"""A hand-written codec for the heartbeat's messages (`proto/navarch/v1/agent.proto`).

Google's library is larger than the whole agent, and these are two small messages.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from navarch.core.ids import CommandId, NodeId
from navarch.core.instance import NodeMetrics
from navarch.core.recovery import Command, CommandKind

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_FLOAT_MAX = 3.4028234663852886e38
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIB = 1024.0 * 1024.0
_KINDS = frozenset(str(kind) for kind in CommandKind)


class MalformedError(ValueError):
    """The bytes are not a valid message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """The decoded reply to a heartbeat."""

    commands: tuple[Command, ...] = ()
    unknown: tuple[str, ...] = ()
    """Command kinds that this version of the agent does not support."""


def heartbeat_bytes(node: NodeId, metrics: NodeMetrics | None, *, sequence: int) -> bytes:
    """Return an encoded HeartbeatRequest."""
    out = bytearray()
    _put_bytes(out, 1, node.encode())
    if sequence:
        out += _key(2, _VARINT) + _varint(sequence)
    if metrics is None:
        return bytes(out)
    for number, value in ((3, metrics.cpu_pct), (4, metrics.memory_pct)):
        raw = _floats_bytes([value])
        if raw != b"\0\0\0\0":  # An absent field means zero.
            out += _key(number, _FIXED32) + raw
    gpus = metrics.gpus
    _put_bytes(out, 5, _floats_bytes([gpu.temperature_c for gpu in gpus]))
    _put_bytes(out, 6, _floats_bytes([gpu.power_w for gpu in gpus]))
    _put_bytes(out, 7, _floats_bytes([gpu.utilization_pct for gpu in gpus]))
    _put_bytes(out, 8, _floats_bytes([gpu.memory_used_bytes / _MIB for gpu in gpus]))
    return bytes(out)


def parse_heartbeat_reply(raw: bytes, node: NodeId) -> HeartbeatReply:
    """Return the decoded HeartbeatResponse for `node`; raise MalformedError if it is malformed."""
    commands: list[Command] = []
    unknown: list[str] = []
    for number, value in _fields(raw):
        if number != 1 or not isinstance(value, bytes):
            continue
        command = _parse_command(value, node)
        if isinstance(command, Command):
            commands.append(command)
        else:
            unknown.append(command)
    return HeartbeatReply(commands=tuple(commands), unknown=tuple(unknown))


def _parse_command(raw: bytes, node: NodeId) -> Command | str:
    texts = {1: "", 2: ""}
    times = {4: 0, 5: 0}
    parameters: dict[str, str] = {}
    for number, value in _fields(raw):
        if number in texts and isinstance(value, bytes):
            texts[number] = _text(value)
        elif number == 3 and isinstance(value, bytes):
            entry = {1: "", 2: ""}
            for part, text in _fields(value):
                if part in entry and isinstance(text, bytes):
                    entry[part] = _text(text)
            parameters[entry[1]] = entry[2]
        elif number in times and isinstance(value, int):
            times[number] = value
    if texts[2] not in _KINDS:
        return texts[2]
    return Command(
        id=CommandId(texts[1]),
        node=node,
        kind=CommandKind(texts[2]),
        issued_at=_moment(times[4]),
        expires_at=_moment(times[5]),
        parameters=parameters,
    )


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(str(error)) from error


def _moment(unix_ms: int) -> datetime:
    signed = unix_ms - (1 << 64) if unix_ms >= 1 << 63 else unix_ms
    try:
        return _EPOCH + timedelta(milliseconds=signed)
    except OverflowError as error:
        raise MalformedError(f"time out of range: {signed} ms") from error


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field numbers and values: varints as integers, everything else as bytes."""
    at = 0
    while at < len(raw):
        key, at = _read_varint(raw, at)
        wire_type = key & 7
        if wire_type == _VARINT:
            value, at = _read_varint(raw, at)
            yield key >> 3, value
            continue
        if wire_type == _BYTES:
            length, at = _read_varint(raw, at)
        elif wire_type in (_FIXED32, _FIXED64):
            length = 4 if wire_type == _FIXED32 else 8
        else:
            raise MalformedError(f"wire type {wire_type} at byte {at}")
        if length > len(raw) - at:
            raise MalformedError(f"{length} bytes expected at byte {at}, {len(raw) - at} left")
        yield key >> 3, raw[at : at + length]
        at += length


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            raise MalformedError("truncated")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise MalformedError(f"varint too long before byte {at}")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _put_bytes(out: bytearray, number: int, value: bytes) -> None:
    if value:
        out += _key(number, _BYTES) + _varint(len(value)) + value


def _floats_bytes(values: Sequence[float]) -> bytes:
    # `struct` raises on overflow: pack the nearest value that fits.
    fitting = [
        max(-_FLOAT_MAX, min(_FLOAT_MAX, value)) if abs(value) < float("inf") else value
        for value in values
    ]
    return struct.pack(f"<{len(fitting)}f", *fitting)
