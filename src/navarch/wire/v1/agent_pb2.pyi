import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Health(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_UNSPECIFIED: _ClassVar[Health]
    HEALTH_HEALTHY: _ClassVar[Health]
    HEALTH_DEGRADED: _ClassVar[Health]
    HEALTH_UNHEALTHY: _ClassVar[Health]
    HEALTH_UNKNOWN: _ClassVar[Health]

class CommandKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMMAND_KIND_UNSPECIFIED: _ClassVar[CommandKind]
    COMMAND_KIND_CORDON: _ClassVar[CommandKind]
    COMMAND_KIND_UNCORDON: _ClassVar[CommandKind]
    COMMAND_KIND_DRAIN: _ClassVar[CommandKind]
    COMMAND_KIND_RUN_DIAGNOSTIC: _ClassVar[CommandKind]
    COMMAND_KIND_TERMINATE: _ClassVar[CommandKind]
    COMMAND_KIND_RESTART_APP: _ClassVar[CommandKind]
    COMMAND_KIND_RESET_GPU: _ClassVar[CommandKind]
    COMMAND_KIND_REBOOT: _ClassVar[CommandKind]
    COMMAND_KIND_PROBE: _ClassVar[CommandKind]
HEALTH_UNSPECIFIED: Health
HEALTH_HEALTHY: Health
HEALTH_DEGRADED: Health
HEALTH_UNHEALTHY: Health
HEALTH_UNKNOWN: Health
COMMAND_KIND_UNSPECIFIED: CommandKind
COMMAND_KIND_CORDON: CommandKind
COMMAND_KIND_UNCORDON: CommandKind
COMMAND_KIND_DRAIN: CommandKind
COMMAND_KIND_RUN_DIAGNOSTIC: CommandKind
COMMAND_KIND_TERMINATE: CommandKind
COMMAND_KIND_RESTART_APP: CommandKind
COMMAND_KIND_RESET_GPU: CommandKind
COMMAND_KIND_REBOOT: CommandKind
COMMAND_KIND_PROBE: CommandKind

class HeartbeatRequest(_message.Message):
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
    temperature_c: _containers.RepeatedScalarFieldContainer[float]
    power_w: _containers.RepeatedScalarFieldContainer[float]
    utilization_pct: _containers.RepeatedScalarFieldContainer[float]
    memory_used_mib: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, node_id: _Optional[str] = ..., sequence: _Optional[int] = ..., cpu_pct: _Optional[float] = ..., memory_pct: _Optional[float] = ..., temperature_c: _Optional[_Iterable[float]] = ..., power_w: _Optional[_Iterable[float]] = ..., utilization_pct: _Optional[_Iterable[float]] = ..., memory_used_mib: _Optional[_Iterable[float]] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("commands",)
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[AgentCommand]
    def __init__(self, commands: _Optional[_Iterable[_Union[AgentCommand, _Mapping]]] = ...) -> None: ...

class HeartbeatBatchRequest(_message.Message):
    __slots__ = ("heartbeats",)
    HEARTBEATS_FIELD_NUMBER: _ClassVar[int]
    heartbeats: _containers.RepeatedCompositeFieldContainer[HeartbeatRequest]
    def __init__(self, heartbeats: _Optional[_Iterable[_Union[HeartbeatRequest, _Mapping]]] = ...) -> None: ...

class HeartbeatBatchResponse(_message.Message):
    __slots__ = ("accepted", "results")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    accepted: int
    results: _containers.RepeatedCompositeFieldContainer[HeartbeatResult]
    def __init__(self, accepted: _Optional[int] = ..., results: _Optional[_Iterable[_Union[HeartbeatResult, _Mapping]]] = ...) -> None: ...

class HeartbeatResult(_message.Message):
    __slots__ = ("index", "commands", "error")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    index: int
    commands: _containers.RepeatedCompositeFieldContainer[AgentCommand]
    error: Error
    def __init__(self, index: _Optional[int] = ..., commands: _Optional[_Iterable[_Union[AgentCommand, _Mapping]]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class AgentCommand(_message.Message):
    __slots__ = ("command_id", "kind", "parameters", "issued_at_unix_ms", "expires_at_unix_ms")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    kind: str
    parameters: _containers.ScalarMap[str, str]
    issued_at_unix_ms: int
    expires_at_unix_ms: int
    def __init__(self, command_id: _Optional[str] = ..., kind: _Optional[str] = ..., parameters: _Optional[_Mapping[str, str]] = ..., issued_at_unix_ms: _Optional[int] = ..., expires_at_unix_ms: _Optional[int] = ...) -> None: ...

class Offering(_message.Message):
    __slots__ = ("provider", "instance_type", "region", "zone", "spot", "gpus", "gpu_type", "price_per_hour", "reservation", "reserved_nodes")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    SPOT_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    RESERVED_NODES_FIELD_NUMBER: _ClassVar[int]
    provider: str
    instance_type: str
    region: str
    zone: str
    spot: bool
    gpus: int
    gpu_type: str
    price_per_hour: str
    reservation: str
    reserved_nodes: int
    def __init__(self, provider: _Optional[str] = ..., instance_type: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., spot: _Optional[bool] = ..., gpus: _Optional[int] = ..., gpu_type: _Optional[str] = ..., price_per_hour: _Optional[str] = ..., reservation: _Optional[str] = ..., reserved_nodes: _Optional[int] = ...) -> None: ...

class Gpu(_message.Message):
    __slots__ = ("index", "uuid", "name", "pci_bus_id", "memory_bytes", "driver_version", "cuda_version", "serial")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PCI_BUS_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DRIVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    CUDA_VERSION_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    index: int
    uuid: str
    name: str
    pci_bus_id: str
    memory_bytes: int
    driver_version: str
    cuda_version: str
    serial: str
    def __init__(self, index: _Optional[int] = ..., uuid: _Optional[str] = ..., name: _Optional[str] = ..., pci_bus_id: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., driver_version: _Optional[str] = ..., cuda_version: _Optional[str] = ..., serial: _Optional[str] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("gpus", "hostname", "internal_ip", "external_ip", "kernel_version", "labels", "image", "agent_version", "commands", "dead_man_s")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GPUS_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_IP_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_IP_FIELD_NUMBER: _ClassVar[int]
    KERNEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    DEAD_MAN_S_FIELD_NUMBER: _ClassVar[int]
    gpus: _containers.RepeatedCompositeFieldContainer[Gpu]
    hostname: str
    internal_ip: str
    external_ip: str
    kernel_version: str
    labels: _containers.ScalarMap[str, str]
    image: str
    agent_version: str
    commands: _containers.RepeatedScalarFieldContainer[str]
    dead_man_s: int
    def __init__(self, gpus: _Optional[_Iterable[_Union[Gpu, _Mapping]]] = ..., hostname: _Optional[str] = ..., internal_ip: _Optional[str] = ..., external_ip: _Optional[str] = ..., kernel_version: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., image: _Optional[str] = ..., agent_version: _Optional[str] = ..., commands: _Optional[_Iterable[str]] = ..., dead_man_s: _Optional[int] = ...) -> None: ...

class GpuMetrics(_message.Message):
    __slots__ = ("temperature_c", "power_w", "utilization_pct", "memory_used_bytes")
    TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    POWER_W_FIELD_NUMBER: _ClassVar[int]
    UTILIZATION_PCT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    temperature_c: float
    power_w: float
    utilization_pct: float
    memory_used_bytes: float
    def __init__(self, temperature_c: _Optional[float] = ..., power_w: _Optional[float] = ..., utilization_pct: _Optional[float] = ..., memory_used_bytes: _Optional[float] = ...) -> None: ...

class NodeMetrics(_message.Message):
    __slots__ = ("cpu_pct", "memory_pct", "gpus")
    CPU_PCT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PCT_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    cpu_pct: float
    memory_pct: float
    gpus: _containers.RepeatedCompositeFieldContainer[GpuMetrics]
    def __init__(self, cpu_pct: _Optional[float] = ..., memory_pct: _Optional[float] = ..., gpus: _Optional[_Iterable[_Union[GpuMetrics, _Mapping]]] = ...) -> None: ...

class CheckResult(_message.Message):
    __slots__ = ("check", "health", "reason", "fatal", "lasting", "action", "facts")
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CHECK_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FATAL_FIELD_NUMBER: _ClassVar[int]
    LASTING_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    check: str
    health: Health
    reason: str
    fatal: bool
    lasting: bool
    action: str
    facts: _containers.ScalarMap[str, str]
    def __init__(self, check: _Optional[str] = ..., health: _Optional[_Union[Health, str]] = ..., reason: _Optional[str] = ..., fatal: _Optional[bool] = ..., lasting: _Optional[bool] = ..., action: _Optional[str] = ..., facts: _Optional[_Mapping[str, str]] = ...) -> None: ...

class HealthReport(_message.Message):
    __slots__ = ("results", "stream", "number", "at", "boot_id")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CheckResult]
    stream: str
    number: int
    at: _timestamp_pb2.Timestamp
    boot_id: str
    def __init__(self, results: _Optional[_Iterable[_Union[CheckResult, _Mapping]]] = ..., stream: _Optional[str] = ..., number: _Optional[int] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., boot_id: _Optional[str] = ...) -> None: ...

class Registration(_message.Message):
    __slots__ = ("node", "token", "boot_id", "place", "inventory", "report")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    node: str
    token: str
    boot_id: str
    place: Offering
    inventory: Inventory
    report: HealthReport
    def __init__(self, node: _Optional[str] = ..., token: _Optional[str] = ..., boot_id: _Optional[str] = ..., place: _Optional[_Union[Offering, _Mapping]] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., report: _Optional[_Union[HealthReport, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("node", "heartbeat_interval", "health_check_interval", "status")
    NODE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    HEALTH_CHECK_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    node: str
    heartbeat_interval: _duration_pb2.Duration
    health_check_interval: _duration_pb2.Duration
    status: str
    def __init__(self, node: _Optional[str] = ..., heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., health_check_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., status: _Optional[str] = ...) -> None: ...

class ReportHealthRequest(_message.Message):
    __slots__ = ("node", "report")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    node: str
    report: HealthReport
    def __init__(self, node: _Optional[str] = ..., report: _Optional[_Union[HealthReport, _Mapping]] = ...) -> None: ...

class ReportHealthResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class ReportMetricsRequest(_message.Message):
    __slots__ = ("node", "samples")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    node: str
    samples: _containers.RepeatedCompositeFieldContainer[Sample]
    def __init__(self, node: _Optional[str] = ..., samples: _Optional[_Iterable[_Union[Sample, _Mapping]]] = ...) -> None: ...

class ReportMetricsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Sample(_message.Message):
    __slots__ = ("at", "metrics")
    AT_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    metrics: NodeMetrics
    def __init__(self, at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., metrics: _Optional[_Union[NodeMetrics, _Mapping]] = ...) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("node", "command")
    NODE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    node: str
    command: str
    def __init__(self, node: _Optional[str] = ..., command: _Optional[str] = ...) -> None: ...

class AcknowledgeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FinishRequest(_message.Message):
    __slots__ = ("node", "command", "succeeded", "result")
    NODE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    node: str
    command: str
    succeeded: bool
    result: str
    def __init__(self, node: _Optional[str] = ..., command: _Optional[str] = ..., succeeded: _Optional[bool] = ..., result: _Optional[str] = ...) -> None: ...

class FinishResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AgentMessage(_message.Message):
    __slots__ = ("number", "register", "heartbeat", "report_health", "acknowledge", "finish", "report_metrics")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    REPORT_HEALTH_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    REPORT_METRICS_FIELD_NUMBER: _ClassVar[int]
    number: int
    register: Registration
    heartbeat: HeartbeatRequest
    report_health: ReportHealthRequest
    acknowledge: AcknowledgeRequest
    finish: FinishRequest
    report_metrics: ReportMetricsRequest
    def __init__(self, number: _Optional[int] = ..., register: _Optional[_Union[Registration, _Mapping]] = ..., heartbeat: _Optional[_Union[HeartbeatRequest, _Mapping]] = ..., report_health: _Optional[_Union[ReportHealthRequest, _Mapping]] = ..., acknowledge: _Optional[_Union[AcknowledgeRequest, _Mapping]] = ..., finish: _Optional[_Union[FinishRequest, _Mapping]] = ..., report_metrics: _Optional[_Union[ReportMetricsRequest, _Mapping]] = ...) -> None: ...

class ControlMessage(_message.Message):
    __slots__ = ("number", "welcome", "heartbeat", "report_health", "acknowledge", "finish", "error", "report_metrics")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    REPORT_HEALTH_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REPORT_METRICS_FIELD_NUMBER: _ClassVar[int]
    number: int
    welcome: Welcome
    heartbeat: HeartbeatResponse
    report_health: ReportHealthResponse
    acknowledge: AcknowledgeResponse
    finish: FinishResponse
    error: Error
    report_metrics: ReportMetricsResponse
    def __init__(self, number: _Optional[int] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., heartbeat: _Optional[_Union[HeartbeatResponse, _Mapping]] = ..., report_health: _Optional[_Union[ReportHealthResponse, _Mapping]] = ..., acknowledge: _Optional[_Union[AcknowledgeResponse, _Mapping]] = ..., finish: _Optional[_Union[FinishResponse, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., report_metrics: _Optional[_Union[ReportMetricsResponse, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class EvidenceNote(_message.Message):
    __slots__ = ("id", "node", "taken_at", "why", "sha256", "size_bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    id: str
    node: str
    taken_at: _timestamp_pb2.Timestamp
    why: str
    sha256: str
    size_bytes: int
    def __init__(self, id: _Optional[str] = ..., node: _Optional[str] = ..., taken_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., why: _Optional[str] = ..., sha256: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class ReportEvidenceRequest(_message.Message):
    __slots__ = ("note", "content")
    NOTE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    note: EvidenceNote
    content: bytes
    def __init__(self, note: _Optional[_Union[EvidenceNote, _Mapping]] = ..., content: _Optional[bytes] = ...) -> None: ...

class ReportEvidenceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
