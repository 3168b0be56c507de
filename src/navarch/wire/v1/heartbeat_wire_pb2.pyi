from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class HeartbeatWire(_message.Message):
    __slots__ = ("node_id", "sequence", "cpu_pct", "memory_pct", "temperature_c", "power_w", "utilization_pct", "memory_used_mib")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CPU_PCT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PCT_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    POWER_W_FIELD_NUMBER: _ClassVar[int]
    UTILIZATION_PCT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_MIB_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    sequence: int
    cpu_pct: float
    memory_pct: float
    temperature_c: bytes
    power_w: bytes
    utilization_pct: bytes
    memory_used_mib: bytes
    def __init__(self, node_id: _Optional[str] = ..., sequence: _Optional[int] = ..., cpu_pct: _Optional[float] = ..., memory_pct: _Optional[float] = ..., temperature_c: _Optional[bytes] = ..., power_w: _Optional[bytes] = ..., utilization_pct: _Optional[bytes] = ..., memory_used_mib: _Optional[bytes] = ...) -> None: ...

class HeartbeatBatchWire(_message.Message):
    __slots__ = ("heartbeats",)
    HEARTBEATS_FIELD_NUMBER: _ClassVar[int]
    heartbeats: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, heartbeats: _Optional[_Iterable[bytes]] = ...) -> None: ...
