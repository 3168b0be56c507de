import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HealthStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_STATUS_UNKNOWN: _ClassVar[HealthStatus]
    HEALTH_STATUS_HEALTHY: _ClassVar[HealthStatus]
    HEALTH_STATUS_DEGRADED: _ClassVar[HealthStatus]
    HEALTH_STATUS_UNHEALTHY: _ClassVar[HealthStatus]

class NodeStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STATUS_UNKNOWN: _ClassVar[NodeStatus]
    NODE_STATUS_ACTIVE: _ClassVar[NodeStatus]
    NODE_STATUS_CORDONED: _ClassVar[NodeStatus]
    NODE_STATUS_DRAINING: _ClassVar[NodeStatus]
    NODE_STATUS_UNHEALTHY: _ClassVar[NodeStatus]
    NODE_STATUS_TERMINATED: _ClassVar[NodeStatus]

class InstanceState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INSTANCE_STATE_UNKNOWN: _ClassVar[InstanceState]
    INSTANCE_STATE_PROVISIONING: _ClassVar[InstanceState]
    INSTANCE_STATE_PENDING_REGISTRATION: _ClassVar[InstanceState]
    INSTANCE_STATE_RUNNING: _ClassVar[InstanceState]
    INSTANCE_STATE_TERMINATING: _ClassVar[InstanceState]
    INSTANCE_STATE_TERMINATED: _ClassVar[InstanceState]
    INSTANCE_STATE_FAILED: _ClassVar[InstanceState]

class NodeCommandType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_COMMAND_TYPE_UNKNOWN: _ClassVar[NodeCommandType]
    NODE_COMMAND_TYPE_CORDON: _ClassVar[NodeCommandType]
    NODE_COMMAND_TYPE_DRAIN: _ClassVar[NodeCommandType]
    NODE_COMMAND_TYPE_RUN_DIAGNOSTIC: _ClassVar[NodeCommandType]
    NODE_COMMAND_TYPE_TERMINATE: _ClassVar[NodeCommandType]
    NODE_COMMAND_TYPE_UNCORDON: _ClassVar[NodeCommandType]

class HealthEventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_EVENT_TYPE_UNKNOWN: _ClassVar[HealthEventType]
    HEALTH_EVENT_TYPE_XID: _ClassVar[HealthEventType]
    HEALTH_EVENT_TYPE_THERMAL: _ClassVar[HealthEventType]
    HEALTH_EVENT_TYPE_POWER: _ClassVar[HealthEventType]
    HEALTH_EVENT_TYPE_MEMORY: _ClassVar[HealthEventType]
    HEALTH_EVENT_TYPE_NVLINK: _ClassVar[HealthEventType]
    HEALTH_EVENT_TYPE_PCIE: _ClassVar[HealthEventType]
    HEALTH_EVENT_TYPE_DRIVER_ERROR: _ClassVar[HealthEventType]
    HEALTH_EVENT_TYPE_ECC_SBE: _ClassVar[HealthEventType]
    HEALTH_EVENT_TYPE_ECC_DBE: _ClassVar[HealthEventType]

class HealthWatchSystem(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_WATCH_SYSTEM_UNKNOWN: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_PCIE: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_NVLINK: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_PMU: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_MCU: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_MEM: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_SM: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_INFOROM: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_THERMAL: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_POWER: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_DRIVER: _ClassVar[HealthWatchSystem]
    HEALTH_WATCH_SYSTEM_NVSWITCH: _ClassVar[HealthWatchSystem]
HEALTH_STATUS_UNKNOWN: HealthStatus
HEALTH_STATUS_HEALTHY: HealthStatus
HEALTH_STATUS_DEGRADED: HealthStatus
HEALTH_STATUS_UNHEALTHY: HealthStatus
NODE_STATUS_UNKNOWN: NodeStatus
NODE_STATUS_ACTIVE: NodeStatus
NODE_STATUS_CORDONED: NodeStatus
NODE_STATUS_DRAINING: NodeStatus
NODE_STATUS_UNHEALTHY: NodeStatus
NODE_STATUS_TERMINATED: NodeStatus
INSTANCE_STATE_UNKNOWN: InstanceState
INSTANCE_STATE_PROVISIONING: InstanceState
INSTANCE_STATE_PENDING_REGISTRATION: InstanceState
INSTANCE_STATE_RUNNING: InstanceState
INSTANCE_STATE_TERMINATING: InstanceState
INSTANCE_STATE_TERMINATED: InstanceState
INSTANCE_STATE_FAILED: InstanceState
NODE_COMMAND_TYPE_UNKNOWN: NodeCommandType
NODE_COMMAND_TYPE_CORDON: NodeCommandType
NODE_COMMAND_TYPE_DRAIN: NodeCommandType
NODE_COMMAND_TYPE_RUN_DIAGNOSTIC: NodeCommandType
NODE_COMMAND_TYPE_TERMINATE: NodeCommandType
NODE_COMMAND_TYPE_UNCORDON: NodeCommandType
HEALTH_EVENT_TYPE_UNKNOWN: HealthEventType
HEALTH_EVENT_TYPE_XID: HealthEventType
HEALTH_EVENT_TYPE_THERMAL: HealthEventType
HEALTH_EVENT_TYPE_POWER: HealthEventType
HEALTH_EVENT_TYPE_MEMORY: HealthEventType
HEALTH_EVENT_TYPE_NVLINK: HealthEventType
HEALTH_EVENT_TYPE_PCIE: HealthEventType
HEALTH_EVENT_TYPE_DRIVER_ERROR: HealthEventType
HEALTH_EVENT_TYPE_ECC_SBE: HealthEventType
HEALTH_EVENT_TYPE_ECC_DBE: HealthEventType
HEALTH_WATCH_SYSTEM_UNKNOWN: HealthWatchSystem
HEALTH_WATCH_SYSTEM_PCIE: HealthWatchSystem
HEALTH_WATCH_SYSTEM_NVLINK: HealthWatchSystem
HEALTH_WATCH_SYSTEM_PMU: HealthWatchSystem
HEALTH_WATCH_SYSTEM_MCU: HealthWatchSystem
HEALTH_WATCH_SYSTEM_MEM: HealthWatchSystem
HEALTH_WATCH_SYSTEM_SM: HealthWatchSystem
HEALTH_WATCH_SYSTEM_INFOROM: HealthWatchSystem
HEALTH_WATCH_SYSTEM_THERMAL: HealthWatchSystem
HEALTH_WATCH_SYSTEM_POWER: HealthWatchSystem
HEALTH_WATCH_SYSTEM_DRIVER: HealthWatchSystem
HEALTH_WATCH_SYSTEM_NVSWITCH: HealthWatchSystem

class RegisterNodeRequest(_message.Message):
    __slots__ = ("node_id", "provider", "region", "zone", "instance_type", "gpus", "metadata")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    provider: str
    region: str
    zone: str
    instance_type: str
    gpus: _containers.RepeatedCompositeFieldContainer[GPUInfo]
    metadata: NodeMetadata
    def __init__(self, node_id: _Optional[str] = ..., provider: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., instance_type: _Optional[str] = ..., gpus: _Optional[_Iterable[_Union[GPUInfo, _Mapping]]] = ..., metadata: _Optional[_Union[NodeMetadata, _Mapping]] = ...) -> None: ...

class RegisterNodeResponse(_message.Message):
    __slots__ = ("success", "message", "config")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    success: bool
    message: str
    config: NodeConfig
    def __init__(self, success: _Optional[bool] = ..., message: _Optional[str] = ..., config: _Optional[_Union[NodeConfig, _Mapping]] = ...) -> None: ...

class GPUInfo(_message.Message):
    __slots__ = ("index", "uuid", "name", "pci_bus_id", "memory_total", "driver_version", "cuda_version")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PCI_BUS_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DRIVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    CUDA_VERSION_FIELD_NUMBER: _ClassVar[int]
    index: int
    uuid: str
    name: str
    pci_bus_id: str
    memory_total: int
    driver_version: str
    cuda_version: str
    def __init__(self, index: _Optional[int] = ..., uuid: _Optional[str] = ..., name: _Optional[str] = ..., pci_bus_id: _Optional[str] = ..., memory_total: _Optional[int] = ..., driver_version: _Optional[str] = ..., cuda_version: _Optional[str] = ...) -> None: ...

class NodeMetadata(_message.Message):
    __slots__ = ("hostname", "internal_ip", "external_ip", "kernel_version", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_IP_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_IP_FIELD_NUMBER: _ClassVar[int]
    KERNEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    hostname: str
    internal_ip: str
    external_ip: str
    kernel_version: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, hostname: _Optional[str] = ..., internal_ip: _Optional[str] = ..., external_ip: _Optional[str] = ..., kernel_version: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class NodeConfig(_message.Message):
    __slots__ = ("health_check_interval_seconds", "heartbeat_interval_seconds", "enabled_health_checks")
    HEALTH_CHECK_INTERVAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ENABLED_HEALTH_CHECKS_FIELD_NUMBER: _ClassVar[int]
    health_check_interval_seconds: int
    heartbeat_interval_seconds: int
    enabled_health_checks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, health_check_interval_seconds: _Optional[int] = ..., heartbeat_interval_seconds: _Optional[int] = ..., enabled_health_checks: _Optional[_Iterable[str]] = ...) -> None: ...

class ReportHealthRequest(_message.Message):
    __slots__ = ("node_id", "results", "events")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    results: _containers.RepeatedCompositeFieldContainer[HealthCheckResult]
    events: _containers.RepeatedCompositeFieldContainer[HealthEvent]
    def __init__(self, node_id: _Optional[str] = ..., results: _Optional[_Iterable[_Union[HealthCheckResult, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[HealthEvent, _Mapping]]] = ...) -> None: ...

class ReportHealthResponse(_message.Message):
    __slots__ = ("acknowledged", "node_status")
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    NODE_STATUS_FIELD_NUMBER: _ClassVar[int]
    acknowledged: bool
    node_status: NodeStatus
    def __init__(self, acknowledged: _Optional[bool] = ..., node_status: _Optional[_Union[NodeStatus, str]] = ...) -> None: ...

class HealthCheckResult(_message.Message):
    __slots__ = ("check_name", "status", "message", "timestamp", "details")
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CHECK_NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    check_name: str
    status: HealthStatus
    message: str
    timestamp: _timestamp_pb2.Timestamp
    details: _containers.ScalarMap[str, str]
    def __init__(self, check_name: _Optional[str] = ..., status: _Optional[_Union[HealthStatus, str]] = ..., message: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., details: _Optional[_Mapping[str, str]] = ...) -> None: ...

class HealthEvent(_message.Message):
    __slots__ = ("timestamp", "gpu_index", "gpu_uuid", "system", "event_type", "metrics", "message")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    GPU_INDEX_FIELD_NUMBER: _ClassVar[int]
    GPU_UUID_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    gpu_index: int
    gpu_uuid: str
    system: HealthWatchSystem
    event_type: HealthEventType
    metrics: _containers.ScalarMap[str, str]
    message: str
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., gpu_index: _Optional[int] = ..., gpu_uuid: _Optional[str] = ..., system: _Optional[_Union[HealthWatchSystem, str]] = ..., event_type: _Optional[_Union[HealthEventType, str]] = ..., metrics: _Optional[_Mapping[str, str]] = ..., message: _Optional[str] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("node_id", "timestamp", "metrics")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    timestamp: _timestamp_pb2.Timestamp
    metrics: NodeMetrics
    def __init__(self, node_id: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., metrics: _Optional[_Union[NodeMetrics, _Mapping]] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("acknowledged",)
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    acknowledged: bool
    def __init__(self, acknowledged: _Optional[bool] = ...) -> None: ...

class NodeMetrics(_message.Message):
    __slots__ = ("cpu_usage_percent", "memory_usage_percent", "gpu_metrics")
    CPU_USAGE_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USAGE_PERCENT_FIELD_NUMBER: _ClassVar[int]
    GPU_METRICS_FIELD_NUMBER: _ClassVar[int]
    cpu_usage_percent: float
    memory_usage_percent: float
    gpu_metrics: _containers.RepeatedCompositeFieldContainer[GPUMetrics]
    def __init__(self, cpu_usage_percent: _Optional[float] = ..., memory_usage_percent: _Optional[float] = ..., gpu_metrics: _Optional[_Iterable[_Union[GPUMetrics, _Mapping]]] = ...) -> None: ...

class GPUMetrics(_message.Message):
    __slots__ = ("gpu_index", "temperature", "power_usage", "utilization_percent", "memory_used")
    GPU_INDEX_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    POWER_USAGE_FIELD_NUMBER: _ClassVar[int]
    UTILIZATION_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_FIELD_NUMBER: _ClassVar[int]
    gpu_index: int
    temperature: int
    power_usage: int
    utilization_percent: float
    memory_used: int
    def __init__(self, gpu_index: _Optional[int] = ..., temperature: _Optional[int] = ..., power_usage: _Optional[int] = ..., utilization_percent: _Optional[float] = ..., memory_used: _Optional[int] = ...) -> None: ...

class GetNodeCommandsRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class GetNodeCommandsResponse(_message.Message):
    __slots__ = ("commands",)
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[NodeCommand]
    def __init__(self, commands: _Optional[_Iterable[_Union[NodeCommand, _Mapping]]] = ...) -> None: ...

class NodeCommand(_message.Message):
    __slots__ = ("command_id", "type", "parameters", "issued_at")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    type: NodeCommandType
    parameters: _containers.ScalarMap[str, str]
    issued_at: _timestamp_pb2.Timestamp
    def __init__(self, command_id: _Optional[str] = ..., type: _Optional[_Union[NodeCommandType, str]] = ..., parameters: _Optional[_Mapping[str, str]] = ..., issued_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("provider", "region", "status")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    provider: str
    region: str
    status: NodeStatus
    def __init__(self, provider: _Optional[str] = ..., region: _Optional[str] = ..., status: _Optional[_Union[NodeStatus, str]] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeInfo]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeInfo, _Mapping]]] = ...) -> None: ...

class NodeInfo(_message.Message):
    __slots__ = ("node_id", "provider", "region", "zone", "instance_type", "status", "health_status", "last_heartbeat", "gpus", "metadata")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_STATUS_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    provider: str
    region: str
    zone: str
    instance_type: str
    status: NodeStatus
    health_status: HealthStatus
    last_heartbeat: _timestamp_pb2.Timestamp
    gpus: _containers.RepeatedCompositeFieldContainer[GPUInfo]
    metadata: NodeMetadata
    def __init__(self, node_id: _Optional[str] = ..., provider: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., instance_type: _Optional[str] = ..., status: _Optional[_Union[NodeStatus, str]] = ..., health_status: _Optional[_Union[HealthStatus, str]] = ..., last_heartbeat: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., gpus: _Optional[_Iterable[_Union[GPUInfo, _Mapping]]] = ..., metadata: _Optional[_Union[NodeMetadata, _Mapping]] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class GetNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: NodeInfo
    def __init__(self, node: _Optional[_Union[NodeInfo, _Mapping]] = ...) -> None: ...

class IssueCommandRequest(_message.Message):
    __slots__ = ("node_id", "command_type", "parameters")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_TYPE_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    command_type: NodeCommandType
    parameters: _containers.ScalarMap[str, str]
    def __init__(self, node_id: _Optional[str] = ..., command_type: _Optional[_Union[NodeCommandType, str]] = ..., parameters: _Optional[_Mapping[str, str]] = ...) -> None: ...

class IssueCommandResponse(_message.Message):
    __slots__ = ("command_id", "issued_at")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    issued_at: _timestamp_pb2.Timestamp
    def __init__(self, command_id: _Optional[str] = ..., issued_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListInstancesRequest(_message.Message):
    __slots__ = ("provider", "region", "state", "pool_name")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    POOL_NAME_FIELD_NUMBER: _ClassVar[int]
    provider: str
    region: str
    state: InstanceState
    pool_name: str
    def __init__(self, provider: _Optional[str] = ..., region: _Optional[str] = ..., state: _Optional[_Union[InstanceState, str]] = ..., pool_name: _Optional[str] = ...) -> None: ...

class ListInstancesResponse(_message.Message):
    __slots__ = ("instances",)
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    instances: _containers.RepeatedCompositeFieldContainer[InstanceInfo]
    def __init__(self, instances: _Optional[_Iterable[_Union[InstanceInfo, _Mapping]]] = ...) -> None: ...

class GetInstanceRequest(_message.Message):
    __slots__ = ("instance_id",)
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    def __init__(self, instance_id: _Optional[str] = ...) -> None: ...

class GetInstanceResponse(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: InstanceInfo
    def __init__(self, instance: _Optional[_Union[InstanceInfo, _Mapping]] = ...) -> None: ...

class InstanceInfo(_message.Message):
    __slots__ = ("instance_id", "provider", "region", "zone", "instance_type", "state", "pool_name", "created_at", "ready_at", "terminated_at", "node_id", "status_message", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    POOL_NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    READY_AT_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_AT_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    provider: str
    region: str
    zone: str
    instance_type: str
    state: InstanceState
    pool_name: str
    created_at: _timestamp_pb2.Timestamp
    ready_at: _timestamp_pb2.Timestamp
    terminated_at: _timestamp_pb2.Timestamp
    node_id: str
    status_message: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, instance_id: _Optional[str] = ..., provider: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., instance_type: _Optional[str] = ..., state: _Optional[_Union[InstanceState, str]] = ..., pool_name: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ready_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., terminated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., node_id: _Optional[str] = ..., status_message: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...
