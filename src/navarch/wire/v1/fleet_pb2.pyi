import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from navarch.wire.v1 import agent_pb2 as _agent_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STATUS_UNSPECIFIED: _ClassVar[NodeStatus]
    NODE_STATUS_ACTIVE: _ClassVar[NodeStatus]
    NODE_STATUS_CORDONED: _ClassVar[NodeStatus]
    NODE_STATUS_DRAINING: _ClassVar[NodeStatus]
    NODE_STATUS_UNHEALTHY: _ClassVar[NodeStatus]
    NODE_STATUS_TERMINATED: _ClassVar[NodeStatus]

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    PHASE_REQUESTED: _ClassVar[Phase]
    PHASE_BOOTING: _ClassVar[Phase]
    PHASE_READY: _ClassVar[Phase]
    PHASE_DRAINING: _ClassVar[Phase]
    PHASE_TERMINATING: _ClassVar[Phase]
    PHASE_GONE: _ClassVar[Phase]

class InstanceState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INSTANCE_STATE_UNSPECIFIED: _ClassVar[InstanceState]
    INSTANCE_STATE_PROVISIONING: _ClassVar[InstanceState]
    INSTANCE_STATE_PENDING_REGISTRATION: _ClassVar[InstanceState]
    INSTANCE_STATE_RUNNING: _ClassVar[InstanceState]
    INSTANCE_STATE_TERMINATING: _ClassVar[InstanceState]
    INSTANCE_STATE_TERMINATED: _ClassVar[InstanceState]
    INSTANCE_STATE_FAILED: _ClassVar[InstanceState]

class CommandStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMMAND_STATUS_UNSPECIFIED: _ClassVar[CommandStatus]
    COMMAND_STATUS_PENDING: _ClassVar[CommandStatus]
    COMMAND_STATUS_ACKNOWLEDGED: _ClassVar[CommandStatus]
    COMMAND_STATUS_COMPLETED: _ClassVar[CommandStatus]
    COMMAND_STATUS_FAILED: _ClassVar[CommandStatus]
    COMMAND_STATUS_EXPIRED: _ClassVar[CommandStatus]

class HeldBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HELD_BY_UNSPECIFIED: _ClassVar[HeldBy]
    HELD_BY_BUDGET: _ClassVar[HeldBy]
    HELD_BY_CHANGE: _ClassVar[HeldBy]
    HELD_BY_DRY_RUN: _ClassVar[HeldBy]
    HELD_BY_SILENCE: _ClassVar[HeldBy]
    HELD_BY_REPLACEMENT_LOOP: _ClassVar[HeldBy]
    HELD_BY_REMEDIATOR: _ClassVar[HeldBy]
    HELD_BY_BURST: _ClassVar[HeldBy]

class RecoveryStep(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECOVERY_STEP_UNSPECIFIED: _ClassVar[RecoveryStep]
    RECOVERY_STEP_RESTART_APP: _ClassVar[RecoveryStep]
    RECOVERY_STEP_RESET_GPU: _ClassVar[RecoveryStep]
    RECOVERY_STEP_REBOOT: _ClassVar[RecoveryStep]
    RECOVERY_STEP_POWER_CYCLE: _ClassVar[RecoveryStep]
    RECOVERY_STEP_REPLACE: _ClassVar[RecoveryStep]
    RECOVERY_STEP_TICKET: _ClassVar[RecoveryStep]

class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAUSE_UNSPECIFIED: _ClassVar[Cause]
    CAUSE_UNHEALTHY: _ClassVar[Cause]
    CAUSE_SPOT_NOTICE: _ClassVar[Cause]
    CAUSE_MAINTENANCE: _ClassVar[Cause]
    CAUSE_EXPIRED: _ClassVar[Cause]
    CAUSE_DRIFTED: _ClassVar[Cause]
    CAUSE_COSTLY: _ClassVar[Cause]
    CAUSE_EMPTY: _ClassVar[Cause]

class Day(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DAY_UNSPECIFIED: _ClassVar[Day]
    DAY_MONDAY: _ClassVar[Day]
    DAY_TUESDAY: _ClassVar[Day]
    DAY_WEDNESDAY: _ClassVar[Day]
    DAY_THURSDAY: _ClassVar[Day]
    DAY_FRIDAY: _ClassVar[Day]
    DAY_SATURDAY: _ClassVar[Day]
    DAY_SUNDAY: _ClassVar[Day]

class AgentStart(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AGENT_START_UNSPECIFIED: _ClassVar[AgentStart]
    AGENT_START_CLOUD_INIT: _ClassVar[AgentStart]
    AGENT_START_SSH: _ClassVar[AgentStart]
    AGENT_START_IMAGE: _ClassVar[AgentStart]

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_MAX: _ClassVar[Mode]
    MODE_MIN: _ClassVar[Mode]
    MODE_AVG: _ClassVar[Mode]

class CostBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COST_BY_UNSPECIFIED: _ClassVar[CostBy]
    COST_BY_POOL: _ClassVar[CostBy]
    COST_BY_TEAM: _ClassVar[CostBy]
    COST_BY_PROVIDER: _ClassVar[CostBy]

class OverBudget(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVER_BUDGET_UNSPECIFIED: _ClassVar[OverBudget]
    OVER_BUDGET_WARN: _ClassVar[OverBudget]
    OVER_BUDGET_DOWNGRADE: _ClassVar[OverBudget]
    OVER_BUDGET_REFUSE: _ClassVar[OverBudget]

class IncidentKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INCIDENT_KIND_UNSPECIFIED: _ClassVar[IncidentKind]
    INCIDENT_KIND_APPLICATION: _ClassVar[IncidentKind]
    INCIDENT_KIND_HARDWARE: _ClassVar[IncidentKind]
    INCIDENT_KIND_FABRIC: _ClassVar[IncidentKind]
    INCIDENT_KIND_NETWORK: _ClassVar[IncidentKind]
    INCIDENT_KIND_HOST: _ClassVar[IncidentKind]

class IncidentState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INCIDENT_STATE_UNSPECIFIED: _ClassVar[IncidentState]
    INCIDENT_STATE_OPEN: _ClassVar[IncidentState]
    INCIDENT_STATE_RECOVERING: _ClassVar[IncidentState]
    INCIDENT_STATE_HELD: _ClassVar[IncidentState]
    INCIDENT_STATE_RESOLVED: _ClassVar[IncidentState]
NODE_STATUS_UNSPECIFIED: NodeStatus
NODE_STATUS_ACTIVE: NodeStatus
NODE_STATUS_CORDONED: NodeStatus
NODE_STATUS_DRAINING: NodeStatus
NODE_STATUS_UNHEALTHY: NodeStatus
NODE_STATUS_TERMINATED: NodeStatus
PHASE_UNSPECIFIED: Phase
PHASE_REQUESTED: Phase
PHASE_BOOTING: Phase
PHASE_READY: Phase
PHASE_DRAINING: Phase
PHASE_TERMINATING: Phase
PHASE_GONE: Phase
INSTANCE_STATE_UNSPECIFIED: InstanceState
INSTANCE_STATE_PROVISIONING: InstanceState
INSTANCE_STATE_PENDING_REGISTRATION: InstanceState
INSTANCE_STATE_RUNNING: InstanceState
INSTANCE_STATE_TERMINATING: InstanceState
INSTANCE_STATE_TERMINATED: InstanceState
INSTANCE_STATE_FAILED: InstanceState
COMMAND_STATUS_UNSPECIFIED: CommandStatus
COMMAND_STATUS_PENDING: CommandStatus
COMMAND_STATUS_ACKNOWLEDGED: CommandStatus
COMMAND_STATUS_COMPLETED: CommandStatus
COMMAND_STATUS_FAILED: CommandStatus
COMMAND_STATUS_EXPIRED: CommandStatus
HELD_BY_UNSPECIFIED: HeldBy
HELD_BY_BUDGET: HeldBy
HELD_BY_CHANGE: HeldBy
HELD_BY_DRY_RUN: HeldBy
HELD_BY_SILENCE: HeldBy
HELD_BY_REPLACEMENT_LOOP: HeldBy
HELD_BY_REMEDIATOR: HeldBy
HELD_BY_BURST: HeldBy
RECOVERY_STEP_UNSPECIFIED: RecoveryStep
RECOVERY_STEP_RESTART_APP: RecoveryStep
RECOVERY_STEP_RESET_GPU: RecoveryStep
RECOVERY_STEP_REBOOT: RecoveryStep
RECOVERY_STEP_POWER_CYCLE: RecoveryStep
RECOVERY_STEP_REPLACE: RecoveryStep
RECOVERY_STEP_TICKET: RecoveryStep
CAUSE_UNSPECIFIED: Cause
CAUSE_UNHEALTHY: Cause
CAUSE_SPOT_NOTICE: Cause
CAUSE_MAINTENANCE: Cause
CAUSE_EXPIRED: Cause
CAUSE_DRIFTED: Cause
CAUSE_COSTLY: Cause
CAUSE_EMPTY: Cause
DAY_UNSPECIFIED: Day
DAY_MONDAY: Day
DAY_TUESDAY: Day
DAY_WEDNESDAY: Day
DAY_THURSDAY: Day
DAY_FRIDAY: Day
DAY_SATURDAY: Day
DAY_SUNDAY: Day
AGENT_START_UNSPECIFIED: AgentStart
AGENT_START_CLOUD_INIT: AgentStart
AGENT_START_SSH: AgentStart
AGENT_START_IMAGE: AgentStart
MODE_UNSPECIFIED: Mode
MODE_MAX: Mode
MODE_MIN: Mode
MODE_AVG: Mode
COST_BY_UNSPECIFIED: CostBy
COST_BY_POOL: CostBy
COST_BY_TEAM: CostBy
COST_BY_PROVIDER: CostBy
OVER_BUDGET_UNSPECIFIED: OverBudget
OVER_BUDGET_WARN: OverBudget
OVER_BUDGET_DOWNGRADE: OverBudget
OVER_BUDGET_REFUSE: OverBudget
INCIDENT_KIND_UNSPECIFIED: IncidentKind
INCIDENT_KIND_APPLICATION: IncidentKind
INCIDENT_KIND_HARDWARE: IncidentKind
INCIDENT_KIND_FABRIC: IncidentKind
INCIDENT_KIND_NETWORK: IncidentKind
INCIDENT_KIND_HOST: IncidentKind
INCIDENT_STATE_UNSPECIFIED: IncidentState
INCIDENT_STATE_OPEN: IncidentState
INCIDENT_STATE_RECOVERING: IncidentState
INCIDENT_STATE_HELD: IncidentState
INCIDENT_STATE_RESOLVED: IncidentState

class NodeView(_message.Message):
    __slots__ = ("id", "pool", "status", "phase", "health", "cordoned", "retiring", "conditions", "provider", "region", "zone", "instance_type", "instance", "public_address", "private_address", "gpus", "price_per_hour", "created_at", "since", "registered_at", "last_heartbeat", "replaces", "labels", "topology", "gang", "waiting", "capacity_type", "held", "recovering", "testimonies", "boot")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    RETIRING_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    RECOVERING_FIELD_NUMBER: _ClassVar[int]
    TESTIMONIES_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    id: str
    pool: str
    status: NodeStatus
    phase: Phase
    health: _agent_pb2.Health
    cordoned: str
    retiring: str
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    provider: str
    region: str
    zone: str
    instance_type: str
    instance: str
    public_address: str
    private_address: str
    gpus: int
    price_per_hour: str
    created_at: _timestamp_pb2.Timestamp
    since: _timestamp_pb2.Timestamp
    registered_at: _timestamp_pb2.Timestamp
    last_heartbeat: _timestamp_pb2.Timestamp
    replaces: str
    labels: _containers.ScalarMap[str, str]
    topology: Topology
    gang: str
    waiting: bool
    capacity_type: str
    held: Held
    recovering: str
    testimonies: _containers.RepeatedCompositeFieldContainer[Testimony]
    boot: Progress
    def __init__(self, id: _Optional[str] = ..., pool: _Optional[str] = ..., status: _Optional[_Union[NodeStatus, str]] = ..., phase: _Optional[_Union[Phase, str]] = ..., health: _Optional[_Union[_agent_pb2.Health, str]] = ..., cordoned: _Optional[str] = ..., retiring: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., provider: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., instance_type: _Optional[str] = ..., instance: _Optional[str] = ..., public_address: _Optional[str] = ..., private_address: _Optional[str] = ..., gpus: _Optional[int] = ..., price_per_hour: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., registered_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_heartbeat: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., replaces: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., topology: _Optional[_Union[Topology, _Mapping]] = ..., gang: _Optional[str] = ..., waiting: _Optional[bool] = ..., capacity_type: _Optional[str] = ..., held: _Optional[_Union[Held, _Mapping]] = ..., recovering: _Optional[str] = ..., testimonies: _Optional[_Iterable[_Union[Testimony, _Mapping]]] = ..., boot: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("step", "at", "failed", "reports")
    STEP_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    step: str
    at: _timestamp_pb2.Timestamp
    failed: str
    reports: int
    def __init__(self, step: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., failed: _Optional[str] = ..., reports: _Optional[int] = ...) -> None: ...

class Testimony(_message.Message):
    __slots__ = ("witness", "alive", "reason", "since")
    WITNESS_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    witness: str
    alive: bool
    reason: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, witness: _Optional[str] = ..., alive: _Optional[bool] = ..., reason: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Topology(_message.Message):
    __slots__ = ("block", "rack", "switch", "host")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    block: str
    rack: str
    switch: str
    host: str
    def __init__(self, block: _Optional[str] = ..., rack: _Optional[str] = ..., switch: _Optional[str] = ..., host: _Optional[str] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("action", "reason", "because", "by", "since", "released", "faults", "suspects")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    SUSPECTS_FIELD_NUMBER: _ClassVar[int]
    action: str
    reason: str
    because: str
    by: HeldBy
    since: _timestamp_pb2.Timestamp
    released: str
    faults: _containers.RepeatedScalarFieldContainer[str]
    suspects: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, action: _Optional[str] = ..., reason: _Optional[str] = ..., because: _Optional[str] = ..., by: _Optional[_Union[HeldBy, str]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., released: _Optional[str] = ..., faults: _Optional[_Iterable[str]] = ..., suspects: _Optional[_Iterable[str]] = ...) -> None: ...

class Remediation(_message.Message):
    __slots__ = ("strategy", "dry_run", "steps", "reboot_deadline")
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    REBOOT_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    strategy: str
    dry_run: bool
    steps: _containers.RepeatedScalarFieldContainer[RecoveryStep]
    reboot_deadline: _duration_pb2.Duration
    def __init__(self, strategy: _Optional[str] = ..., dry_run: _Optional[bool] = ..., steps: _Optional[_Iterable[_Union[RecoveryStep, str]]] = ..., reboot_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("check", "health", "reason", "since", "times", "fatal", "lasting", "boot_id", "action", "facts")
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
    SINCE_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    FATAL_FIELD_NUMBER: _ClassVar[int]
    LASTING_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    check: str
    health: _agent_pb2.Health
    reason: str
    since: _timestamp_pb2.Timestamp
    times: int
    fatal: bool
    lasting: bool
    boot_id: str
    action: str
    facts: _containers.ScalarMap[str, str]
    def __init__(self, check: _Optional[str] = ..., health: _Optional[_Union[_agent_pb2.Health, str]] = ..., reason: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., times: _Optional[int] = ..., fatal: _Optional[bool] = ..., lasting: _Optional[bool] = ..., boot_id: _Optional[str] = ..., action: _Optional[str] = ..., facts: _Optional[_Mapping[str, str]] = ...) -> None: ...

class NodeDetail(_message.Message):
    __slots__ = ("node", "inventory", "metrics", "commands")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    node: NodeView
    inventory: _agent_pb2.Inventory
    metrics: _agent_pb2.NodeMetrics
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    def __init__(self, node: _Optional[_Union[NodeView, _Mapping]] = ..., inventory: _Optional[_Union[_agent_pb2.Inventory, _Mapping]] = ..., metrics: _Optional[_Union[_agent_pb2.NodeMetrics, _Mapping]] = ..., commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("id", "node", "kind", "issued_at", "expires_at", "parameters", "status", "ended_at", "result")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    id: str
    node: str
    kind: _agent_pb2.CommandKind
    issued_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    parameters: _containers.ScalarMap[str, str]
    status: CommandStatus
    ended_at: _timestamp_pb2.Timestamp
    result: str
    def __init__(self, id: _Optional[str] = ..., node: _Optional[str] = ..., kind: _Optional[_Union[_agent_pb2.CommandKind, str]] = ..., issued_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., parameters: _Optional[_Mapping[str, str]] = ..., status: _Optional[_Union[CommandStatus, str]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., result: _Optional[str] = ...) -> None: ...

class InstanceView(_message.Message):
    __slots__ = ("id", "provider", "region", "zone", "instance_type", "state", "pool", "node", "created_at", "ready_at", "terminated_at", "message", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    READY_AT_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_AT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    id: str
    provider: str
    region: str
    zone: str
    instance_type: str
    state: InstanceState
    pool: str
    node: str
    created_at: _timestamp_pb2.Timestamp
    ready_at: _timestamp_pb2.Timestamp
    terminated_at: _timestamp_pb2.Timestamp
    message: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., provider: _Optional[str] = ..., region: _Optional[str] = ..., zone: _Optional[str] = ..., instance_type: _Optional[str] = ..., state: _Optional[_Union[InstanceState, str]] = ..., pool: _Optional[str] = ..., node: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ready_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., terminated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., message: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PoolSpec(_message.Message):
    __slots__ = ("name", "offerings", "nodes_min", "nodes_max", "nodes_wanted", "labels", "ssh_keys", "user_data", "auto_replace", "unhealthy_after", "boot_deadline", "drain_timeout", "silent_after", "autoscaling", "cooldown", "shrink_after", "spares", "disruption", "gang", "gang_hold", "remediation", "setup")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFERINGS_FIELD_NUMBER: _ClassVar[int]
    NODES_MIN_FIELD_NUMBER: _ClassVar[int]
    NODES_MAX_FIELD_NUMBER: _ClassVar[int]
    NODES_WANTED_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SSH_KEYS_FIELD_NUMBER: _ClassVar[int]
    USER_DATA_FIELD_NUMBER: _ClassVar[int]
    AUTO_REPLACE_FIELD_NUMBER: _ClassVar[int]
    UNHEALTHY_AFTER_FIELD_NUMBER: _ClassVar[int]
    BOOT_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    SILENT_AFTER_FIELD_NUMBER: _ClassVar[int]
    AUTOSCALING_FIELD_NUMBER: _ClassVar[int]
    COOLDOWN_FIELD_NUMBER: _ClassVar[int]
    SHRINK_AFTER_FIELD_NUMBER: _ClassVar[int]
    SPARES_FIELD_NUMBER: _ClassVar[int]
    DISRUPTION_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    GANG_HOLD_FIELD_NUMBER: _ClassVar[int]
    REMEDIATION_FIELD_NUMBER: _ClassVar[int]
    SETUP_FIELD_NUMBER: _ClassVar[int]
    name: str
    offerings: _containers.RepeatedCompositeFieldContainer[_agent_pb2.Offering]
    nodes_min: int
    nodes_max: int
    nodes_wanted: int
    labels: _containers.ScalarMap[str, str]
    ssh_keys: _containers.RepeatedScalarFieldContainer[str]
    user_data: str
    auto_replace: bool
    unhealthy_after: int
    boot_deadline: _duration_pb2.Duration
    drain_timeout: _duration_pb2.Duration
    silent_after: _duration_pb2.Duration
    autoscaling: Autoscaling
    cooldown: _duration_pb2.Duration
    shrink_after: _duration_pb2.Duration
    spares: int
    disruption: Disruption
    gang: int
    gang_hold: _duration_pb2.Duration
    remediation: Remediation
    setup: MachineSetup
    def __init__(self, name: _Optional[str] = ..., offerings: _Optional[_Iterable[_Union[_agent_pb2.Offering, _Mapping]]] = ..., nodes_min: _Optional[int] = ..., nodes_max: _Optional[int] = ..., nodes_wanted: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., ssh_keys: _Optional[_Iterable[str]] = ..., user_data: _Optional[str] = ..., auto_replace: _Optional[bool] = ..., unhealthy_after: _Optional[int] = ..., boot_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., drain_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., silent_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., autoscaling: _Optional[_Union[Autoscaling, _Mapping]] = ..., cooldown: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., shrink_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., spares: _Optional[int] = ..., disruption: _Optional[_Union[Disruption, _Mapping]] = ..., gang: _Optional[int] = ..., gang_hold: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., remediation: _Optional[_Union[Remediation, _Mapping]] = ..., setup: _Optional[_Union[MachineSetup, _Mapping]] = ...) -> None: ...

class MachineSetup(_message.Message):
    __slots__ = ("agent", "commands", "install_command", "user_data", "image", "user", "key_file", "port", "private_address", "address_within", "answer_within", "connect_within", "command_within", "attempts_max")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    INSTALL_COMMAND_FIELD_NUMBER: _ClassVar[int]
    USER_DATA_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    KEY_FILE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_WITHIN_FIELD_NUMBER: _ClassVar[int]
    ANSWER_WITHIN_FIELD_NUMBER: _ClassVar[int]
    CONNECT_WITHIN_FIELD_NUMBER: _ClassVar[int]
    COMMAND_WITHIN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_MAX_FIELD_NUMBER: _ClassVar[int]
    agent: AgentStart
    commands: _containers.RepeatedScalarFieldContainer[str]
    install_command: str
    user_data: str
    image: str
    user: str
    key_file: str
    port: int
    private_address: bool
    address_within: _duration_pb2.Duration
    answer_within: _duration_pb2.Duration
    connect_within: _duration_pb2.Duration
    command_within: _duration_pb2.Duration
    attempts_max: int
    def __init__(self, agent: _Optional[_Union[AgentStart, str]] = ..., commands: _Optional[_Iterable[str]] = ..., install_command: _Optional[str] = ..., user_data: _Optional[str] = ..., image: _Optional[str] = ..., user: _Optional[str] = ..., key_file: _Optional[str] = ..., port: _Optional[int] = ..., private_address: _Optional[bool] = ..., address_within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., answer_within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., connect_within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., command_within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., attempts_max: _Optional[int] = ...) -> None: ...

class DisruptionBudget(_message.Message):
    __slots__ = ("nodes_max", "share_max", "causes", "days", "hours", "time_zone")
    NODES_MAX_FIELD_NUMBER: _ClassVar[int]
    SHARE_MAX_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    DAYS_FIELD_NUMBER: _ClassVar[int]
    HOURS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    nodes_max: int
    share_max: float
    causes: _containers.RepeatedScalarFieldContainer[Cause]
    days: _containers.RepeatedScalarFieldContainer[int]
    hours: str
    time_zone: str
    def __init__(self, nodes_max: _Optional[int] = ..., share_max: _Optional[float] = ..., causes: _Optional[_Iterable[_Union[Cause, str]]] = ..., days: _Optional[_Iterable[int]] = ..., hours: _Optional[str] = ..., time_zone: _Optional[str] = ...) -> None: ...

class Disruption(_message.Message):
    __slots__ = ("budgets", "lifetime_max", "replace_drifted", "savings_min", "empty_after")
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_MAX_FIELD_NUMBER: _ClassVar[int]
    REPLACE_DRIFTED_FIELD_NUMBER: _ClassVar[int]
    SAVINGS_MIN_FIELD_NUMBER: _ClassVar[int]
    EMPTY_AFTER_FIELD_NUMBER: _ClassVar[int]
    budgets: _containers.RepeatedCompositeFieldContainer[DisruptionBudget]
    lifetime_max: _duration_pb2.Duration
    replace_drifted: bool
    savings_min: float
    empty_after: _duration_pb2.Duration
    def __init__(self, budgets: _Optional[_Iterable[_Union[DisruptionBudget, _Mapping]]] = ..., lifetime_max: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., replace_drifted: _Optional[bool] = ..., savings_min: _Optional[float] = ..., empty_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Window(_message.Message):
    __slots__ = ("days", "start", "end", "nodes_min", "nodes_max")
    DAYS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    NODES_MIN_FIELD_NUMBER: _ClassVar[int]
    NODES_MAX_FIELD_NUMBER: _ClassVar[int]
    days: _containers.RepeatedScalarFieldContainer[Day]
    start: int
    end: int
    nodes_min: int
    nodes_max: int
    def __init__(self, days: _Optional[_Iterable[_Union[Day, str]]] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., nodes_min: _Optional[int] = ..., nodes_max: _Optional[int] = ...) -> None: ...

class ReactiveSettings(_message.Message):
    __slots__ = ("scale_up_at", "scale_down_at")
    SCALE_UP_AT_FIELD_NUMBER: _ClassVar[int]
    SCALE_DOWN_AT_FIELD_NUMBER: _ClassVar[int]
    scale_up_at: float
    scale_down_at: float
    def __init__(self, scale_up_at: _Optional[float] = ..., scale_down_at: _Optional[float] = ...) -> None: ...

class QueueSettings(_message.Message):
    __slots__ = ("jobs_per_node",)
    JOBS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    jobs_per_node: int
    def __init__(self, jobs_per_node: _Optional[int] = ...) -> None: ...

class ScheduledSettings(_message.Message):
    __slots__ = ("windows", "time_zone", "fallback")
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    windows: _containers.RepeatedCompositeFieldContainer[Window]
    time_zone: str
    fallback: Autoscaling
    def __init__(self, windows: _Optional[_Iterable[_Union[Window, _Mapping]]] = ..., time_zone: _Optional[str] = ..., fallback: _Optional[_Union[Autoscaling, _Mapping]] = ...) -> None: ...

class PredictiveSettings(_message.Message):
    __slots__ = ("lookback_window", "growth_factor", "fallback")
    LOOKBACK_WINDOW_FIELD_NUMBER: _ClassVar[int]
    GROWTH_FACTOR_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    lookback_window: int
    growth_factor: float
    fallback: Autoscaling
    def __init__(self, lookback_window: _Optional[int] = ..., growth_factor: _Optional[float] = ..., fallback: _Optional[_Union[Autoscaling, _Mapping]] = ...) -> None: ...

class CompositeSettings(_message.Message):
    __slots__ = ("members", "mode")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Autoscaling]
    mode: Mode
    def __init__(self, members: _Optional[_Iterable[_Union[Autoscaling, _Mapping]]] = ..., mode: _Optional[_Union[Mode, str]] = ...) -> None: ...

class CostAwareSettings(_message.Message):
    __slots__ = ("peak_start", "peak_end", "scale_up_at", "off_peak_nodes", "time_zone")
    PEAK_START_FIELD_NUMBER: _ClassVar[int]
    PEAK_END_FIELD_NUMBER: _ClassVar[int]
    SCALE_UP_AT_FIELD_NUMBER: _ClassVar[int]
    OFF_PEAK_NODES_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    peak_start: int
    peak_end: int
    scale_up_at: float
    off_peak_nodes: int
    time_zone: str
    def __init__(self, peak_start: _Optional[int] = ..., peak_end: _Optional[int] = ..., scale_up_at: _Optional[float] = ..., off_peak_nodes: _Optional[int] = ..., time_zone: _Optional[str] = ...) -> None: ...

class Autoscaling(_message.Message):
    __slots__ = ("reactive", "queue", "scheduled", "predictive", "composite", "cost_aware")
    REACTIVE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    PREDICTIVE_FIELD_NUMBER: _ClassVar[int]
    COMPOSITE_FIELD_NUMBER: _ClassVar[int]
    COST_AWARE_FIELD_NUMBER: _ClassVar[int]
    reactive: ReactiveSettings
    queue: QueueSettings
    scheduled: ScheduledSettings
    predictive: PredictiveSettings
    composite: CompositeSettings
    cost_aware: CostAwareSettings
    def __init__(self, reactive: _Optional[_Union[ReactiveSettings, _Mapping]] = ..., queue: _Optional[_Union[QueueSettings, _Mapping]] = ..., scheduled: _Optional[_Union[ScheduledSettings, _Mapping]] = ..., predictive: _Optional[_Union[PredictiveSettings, _Mapping]] = ..., composite: _Optional[_Union[CompositeSettings, _Mapping]] = ..., cost_aware: _Optional[_Union[CostAwareSettings, _Mapping]] = ...) -> None: ...

class PoolView(_message.Message):
    __slots__ = ("spec", "size", "serving", "starting", "leaving", "unhealthy", "cordoned", "price_per_hour", "note", "degraded", "paused", "hosts")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    STARTING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    UNHEALTHY_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    spec: PoolSpec
    size: int
    serving: int
    starting: int
    leaving: int
    unhealthy: int
    cordoned: int
    price_per_hour: str
    note: str
    degraded: int
    paused: str
    hosts: int
    def __init__(self, spec: _Optional[_Union[PoolSpec, _Mapping]] = ..., size: _Optional[int] = ..., serving: _Optional[int] = ..., starting: _Optional[int] = ..., leaving: _Optional[int] = ..., unhealthy: _Optional[int] = ..., cordoned: _Optional[int] = ..., price_per_hour: _Optional[str] = ..., note: _Optional[str] = ..., degraded: _Optional[int] = ..., paused: _Optional[str] = ..., hosts: _Optional[int] = ...) -> None: ...

class FailingController(_message.Message):
    __slots__ = ("name", "error", "times", "since", "retry_at", "kind", "subject", "others")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    error: str
    times: int
    since: _timestamp_pb2.Timestamp
    retry_at: _timestamp_pb2.Timestamp
    kind: str
    subject: str
    others: int
    def __init__(self, name: _Optional[str] = ..., error: _Optional[str] = ..., times: _Optional[int] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., retry_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., kind: _Optional[str] = ..., subject: _Optional[str] = ..., others: _Optional[int] = ...) -> None: ...

class FleetStatus(_message.Message):
    __slots__ = ("cluster", "version", "revision", "now", "pools", "nodes_by_status", "gpus", "price_per_hour", "recent", "nodes_by_health", "open_incidents", "incidents", "failing", "store")
    class NodesByStatusEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class NodesByHealthEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    NODES_BY_STATUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    NODES_BY_HEALTH_FIELD_NUMBER: _ClassVar[int]
    OPEN_INCIDENTS_FIELD_NUMBER: _ClassVar[int]
    INCIDENTS_FIELD_NUMBER: _ClassVar[int]
    FAILING_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    version: str
    revision: int
    now: _timestamp_pb2.Timestamp
    pools: _containers.RepeatedCompositeFieldContainer[PoolView]
    nodes_by_status: _containers.ScalarMap[str, int]
    gpus: int
    price_per_hour: str
    recent: _containers.RepeatedCompositeFieldContainer[Recorded]
    nodes_by_health: _containers.ScalarMap[str, int]
    open_incidents: int
    incidents: _containers.RepeatedCompositeFieldContainer[Incident]
    failing: _containers.RepeatedCompositeFieldContainer[FailingController]
    store: StoreStatus
    def __init__(self, cluster: _Optional[str] = ..., version: _Optional[str] = ..., revision: _Optional[int] = ..., now: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pools: _Optional[_Iterable[_Union[PoolView, _Mapping]]] = ..., nodes_by_status: _Optional[_Mapping[str, int]] = ..., gpus: _Optional[int] = ..., price_per_hour: _Optional[str] = ..., recent: _Optional[_Iterable[_Union[Recorded, _Mapping]]] = ..., nodes_by_health: _Optional[_Mapping[str, int]] = ..., open_incidents: _Optional[int] = ..., incidents: _Optional[_Iterable[_Union[Incident, _Mapping]]] = ..., failing: _Optional[_Iterable[_Union[FailingController, _Mapping]]] = ..., store: _Optional[_Union[StoreStatus, _Mapping]] = ...) -> None: ...

class StoreStatus(_message.Message):
    __slots__ = ("kind", "place", "bytes", "answers_in", "standbys", "replicas")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_IN_FIELD_NUMBER: _ClassVar[int]
    STANDBYS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    place: str
    bytes: int
    answers_in: _duration_pb2.Duration
    standbys: _containers.RepeatedScalarFieldContainer[int]
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaStatus]
    def __init__(self, kind: _Optional[str] = ..., place: _Optional[str] = ..., bytes: _Optional[int] = ..., answers_in: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., standbys: _Optional[_Iterable[int]] = ..., replicas: _Optional[_Iterable[_Union[ReplicaStatus, _Mapping]]] = ...) -> None: ...

class ReplicaStatus(_message.Message):
    __slots__ = ("address", "version", "leads", "behind", "silent_for")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    SILENT_FOR_FIELD_NUMBER: _ClassVar[int]
    address: str
    version: str
    leads: bool
    behind: int
    silent_for: _duration_pb2.Duration
    def __init__(self, address: _Optional[str] = ..., version: _Optional[str] = ..., leads: _Optional[bool] = ..., behind: _Optional[int] = ..., silent_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Query(_message.Message):
    __slots__ = ("pool", "provider", "region", "status", "health", "state", "labels", "include_gone", "order_by", "page_size", "page_token")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    POOL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_GONE_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    pool: str
    provider: str
    region: str
    status: NodeStatus
    health: _agent_pb2.Health
    state: InstanceState
    labels: _containers.ScalarMap[str, str]
    include_gone: bool
    order_by: str
    page_size: int
    page_token: str
    def __init__(self, pool: _Optional[str] = ..., provider: _Optional[str] = ..., region: _Optional[str] = ..., status: _Optional[_Union[NodeStatus, str]] = ..., health: _Optional[_Union[_agent_pb2.Health, str]] = ..., state: _Optional[_Union[InstanceState, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., include_gone: _Optional[bool] = ..., order_by: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class NodePage(_message.Message):
    __slots__ = ("items", "next_page_token", "total", "revision")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NodeView]
    next_page_token: str
    total: int
    revision: int
    def __init__(self, items: _Optional[_Iterable[_Union[NodeView, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class InstancePage(_message.Message):
    __slots__ = ("items", "next_page_token", "total", "revision")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[InstanceView]
    next_page_token: str
    total: int
    revision: int
    def __init__(self, items: _Optional[_Iterable[_Union[InstanceView, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class PoolList(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[PoolView]
    def __init__(self, items: _Optional[_Iterable[_Union[PoolView, _Mapping]]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("at", "about", "kind", "reason", "because", "facts")
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    AT_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    about: str
    kind: str
    reason: str
    because: _containers.RepeatedScalarFieldContainer[str]
    facts: _containers.ScalarMap[str, str]
    def __init__(self, at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., about: _Optional[str] = ..., kind: _Optional[str] = ..., reason: _Optional[str] = ..., because: _Optional[_Iterable[str]] = ..., facts: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Recorded(_message.Message):
    __slots__ = ("number", "revision", "event")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    number: int
    revision: int
    event: Event
    def __init__(self, number: _Optional[int] = ..., revision: _Optional[int] = ..., event: _Optional[_Union[Event, _Mapping]] = ...) -> None: ...

class RecordedList(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Recorded]
    def __init__(self, items: _Optional[_Iterable[_Union[Recorded, _Mapping]]] = ...) -> None: ...

class Update(_message.Message):
    __slots__ = ("revision", "events", "nodes", "pools")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    events: _containers.RepeatedCompositeFieldContainer[Recorded]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeView]
    pools: _containers.RepeatedCompositeFieldContainer[PoolView]
    def __init__(self, revision: _Optional[int] = ..., events: _Optional[_Iterable[_Union[Recorded, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[NodeView, _Mapping]]] = ..., pools: _Optional[_Iterable[_Union[PoolView, _Mapping]]] = ...) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("name", "gpus", "gpu_type", "provider", "region", "spot", "gang", "setup", "ssh_keys", "own_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    SPOT_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    SETUP_FIELD_NUMBER: _ClassVar[int]
    SSH_KEYS_FIELD_NUMBER: _ClassVar[int]
    OWN_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    gpus: int
    gpu_type: str
    provider: str
    region: str
    spot: bool
    gang: int
    setup: MachineSetup
    ssh_keys: _containers.RepeatedScalarFieldContainer[str]
    own_key: str
    def __init__(self, name: _Optional[str] = ..., gpus: _Optional[int] = ..., gpu_type: _Optional[str] = ..., provider: _Optional[str] = ..., region: _Optional[str] = ..., spot: _Optional[bool] = ..., gang: _Optional[int] = ..., setup: _Optional[_Union[MachineSetup, _Mapping]] = ..., ssh_keys: _Optional[_Iterable[str]] = ..., own_key: _Optional[str] = ...) -> None: ...

class Why(_message.Message):
    __slots__ = ("about", "state", "steps")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    about: str
    state: str
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    def __init__(self, about: _Optional[str] = ..., state: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("number", "at", "kind", "reason", "because", "details")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    number: int
    at: _timestamp_pb2.Timestamp
    kind: str
    reason: str
    because: _containers.RepeatedCompositeFieldContainer[Why]
    details: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, number: _Optional[int] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., kind: _Optional[str] = ..., reason: _Optional[str] = ..., because: _Optional[_Iterable[_Union[Why, _Mapping]]] = ..., details: _Optional[_Iterable[str]] = ...) -> None: ...

class CostRequest(_message.Message):
    __slots__ = ("by", "since")
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    by: CostBy
    since: _timestamp_pb2.Timestamp
    def __init__(self, by: _Optional[_Union[CostBy, str]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CostLine(_message.Message):
    __slots__ = ("name", "machines", "running", "machine_time", "spent", "per_hour", "forecast")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    MACHINE_TIME_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    FORECAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    machines: int
    running: int
    machine_time: _duration_pb2.Duration
    spent: str
    per_hour: str
    forecast: str
    def __init__(self, name: _Optional[str] = ..., machines: _Optional[int] = ..., running: _Optional[int] = ..., machine_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., spent: _Optional[str] = ..., per_hour: _Optional[str] = ..., forecast: _Optional[str] = ...) -> None: ...

class BudgetView(_message.Message):
    __slots__ = ("name", "limit_per_month", "spent", "forecast", "when_spent", "level")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_PER_MONTH_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    FORECAST_FIELD_NUMBER: _ClassVar[int]
    WHEN_SPENT_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit_per_month: str
    spent: str
    forecast: str
    when_spent: OverBudget
    level: str
    def __init__(self, name: _Optional[str] = ..., limit_per_month: _Optional[str] = ..., spent: _Optional[str] = ..., forecast: _Optional[str] = ..., when_spent: _Optional[_Union[OverBudget, str]] = ..., level: _Optional[str] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("offering", "provider_type", "configured", "machines", "gpu_memory_gib", "interconnect", "fabric", "priced_at", "sold_out", "sold_out_until")
    OFFERING_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_GIB_FIELD_NUMBER: _ClassVar[int]
    INTERCONNECT_FIELD_NUMBER: _ClassVar[int]
    FABRIC_FIELD_NUMBER: _ClassVar[int]
    PRICED_AT_FIELD_NUMBER: _ClassVar[int]
    SOLD_OUT_FIELD_NUMBER: _ClassVar[int]
    SOLD_OUT_UNTIL_FIELD_NUMBER: _ClassVar[int]
    offering: _agent_pb2.Offering
    provider_type: str
    configured: bool
    machines: int
    gpu_memory_gib: float
    interconnect: str
    fabric: str
    priced_at: _timestamp_pb2.Timestamp
    sold_out: str
    sold_out_until: _timestamp_pb2.Timestamp
    def __init__(self, offering: _Optional[_Union[_agent_pb2.Offering, _Mapping]] = ..., provider_type: _Optional[str] = ..., configured: _Optional[bool] = ..., machines: _Optional[int] = ..., gpu_memory_gib: _Optional[float] = ..., interconnect: _Optional[str] = ..., fabric: _Optional[str] = ..., priced_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sold_out: _Optional[str] = ..., sold_out_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CostReport(_message.Message):
    __slots__ = ("by", "since", "until", "lines", "total", "budgets")
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    by: CostBy
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    lines: _containers.RepeatedCompositeFieldContainer[CostLine]
    total: CostLine
    budgets: _containers.RepeatedCompositeFieldContainer[BudgetView]
    def __init__(self, by: _Optional[_Union[CostBy, str]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lines: _Optional[_Iterable[_Union[CostLine, _Mapping]]] = ..., total: _Optional[_Union[CostLine, _Mapping]] = ..., budgets: _Optional[_Iterable[_Union[BudgetView, _Mapping]]] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("query",)
    QUERY_FIELD_NUMBER: _ClassVar[int]
    query: Query
    def __init__(self, query: _Optional[_Union[Query, _Mapping]] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListInstancesRequest(_message.Message):
    __slots__ = ("query",)
    QUERY_FIELD_NUMBER: _ClassVar[int]
    query: Query
    def __init__(self, query: _Optional[_Union[Query, _Mapping]] = ...) -> None: ...

class GetInstanceRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListPoolsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPoolRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class PutPoolRequest(_message.Message):
    __slots__ = ("spec", "reason")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    spec: PoolSpec
    reason: str
    def __init__(self, spec: _Optional[_Union[PoolSpec, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class ScaleRequest(_message.Message):
    __slots__ = ("pool", "nodes", "reason")
    POOL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    pool: str
    nodes: int
    reason: str
    def __init__(self, pool: _Optional[str] = ..., nodes: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class DeletePoolRequest(_message.Message):
    __slots__ = ("pool", "reason")
    POOL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    pool: str
    reason: str
    def __init__(self, pool: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UpRequest(_message.Message):
    __slots__ = ("capacity",)
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    capacity: Capacity
    def __init__(self, capacity: _Optional[_Union[Capacity, _Mapping]] = ...) -> None: ...

class CordonRequest(_message.Message):
    __slots__ = ("node", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    reason: str
    def __init__(self, node: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UncordonRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("node", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    reason: str
    def __init__(self, node: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RetireRequest(_message.Message):
    __slots__ = ("node", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    reason: str
    def __init__(self, node: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DeclareHealthyRequest(_message.Message):
    __slots__ = ("node", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    reason: str
    def __init__(self, node: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class IssueRequest(_message.Message):
    __slots__ = ("node", "kind", "parameters")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    node: str
    kind: _agent_pb2.CommandKind
    parameters: _containers.ScalarMap[str, str]
    def __init__(self, node: _Optional[str] = ..., kind: _Optional[_Union[_agent_pb2.CommandKind, str]] = ..., parameters: _Optional[_Mapping[str, str]] = ...) -> None: ...

class GetCommandRequest(_message.Message):
    __slots__ = ("command",)
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command: str
    def __init__(self, command: _Optional[str] = ...) -> None: ...

class InjectRequest(_message.Message):
    __slots__ = ("node", "result")
    NODE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    node: str
    result: _agent_pb2.CheckResult
    def __init__(self, node: _Optional[str] = ..., result: _Optional[_Union[_agent_pb2.CheckResult, _Mapping]] = ...) -> None: ...

class InjectResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Symptom(_message.Message):
    __slots__ = ("check", "reason", "node", "first_at", "last_at", "code", "gpu", "action", "rule", "count")
    CHECK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    FIRST_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    check: str
    reason: str
    node: str
    first_at: _timestamp_pb2.Timestamp
    last_at: _timestamp_pb2.Timestamp
    code: str
    gpu: str
    action: str
    rule: str
    count: int
    def __init__(self, check: _Optional[str] = ..., reason: _Optional[str] = ..., node: _Optional[str] = ..., first_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., code: _Optional[str] = ..., gpu: _Optional[str] = ..., action: _Optional[str] = ..., rule: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class Incident(_message.Message):
    __slots__ = ("id", "kind", "node", "opened_at", "last_at", "title", "check", "code", "action", "state", "nodes", "pool", "domain", "gpus", "boot_id", "pid", "process", "symptoms", "closed_at", "note", "recovery", "provider", "instance_type", "slots", "host")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    SYMPTOMS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_AT_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: IncidentKind
    node: str
    opened_at: _timestamp_pb2.Timestamp
    last_at: _timestamp_pb2.Timestamp
    title: str
    check: str
    code: str
    action: str
    state: IncidentState
    nodes: _containers.RepeatedScalarFieldContainer[str]
    pool: str
    domain: str
    gpus: _containers.RepeatedScalarFieldContainer[str]
    boot_id: str
    pid: str
    process: str
    symptoms: _containers.RepeatedCompositeFieldContainer[Symptom]
    closed_at: _timestamp_pb2.Timestamp
    note: str
    recovery: str
    provider: str
    instance_type: str
    slots: _containers.RepeatedScalarFieldContainer[str]
    host: str
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[_Union[IncidentKind, str]] = ..., node: _Optional[str] = ..., opened_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., title: _Optional[str] = ..., check: _Optional[str] = ..., code: _Optional[str] = ..., action: _Optional[str] = ..., state: _Optional[_Union[IncidentState, str]] = ..., nodes: _Optional[_Iterable[str]] = ..., pool: _Optional[str] = ..., domain: _Optional[str] = ..., gpus: _Optional[_Iterable[str]] = ..., boot_id: _Optional[str] = ..., pid: _Optional[str] = ..., process: _Optional[str] = ..., symptoms: _Optional[_Iterable[_Union[Symptom, _Mapping]]] = ..., closed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., note: _Optional[str] = ..., recovery: _Optional[str] = ..., provider: _Optional[str] = ..., instance_type: _Optional[str] = ..., slots: _Optional[_Iterable[str]] = ..., host: _Optional[str] = ...) -> None: ...

class IncidentList(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Incident]
    def __init__(self, items: _Optional[_Iterable[_Union[Incident, _Mapping]]] = ...) -> None: ...

class ListIncidentsRequest(_message.Message):
    __slots__ = ("node", "only_open", "limit")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ONLY_OPEN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    node: str
    only_open: bool
    limit: int
    def __init__(self, node: _Optional[str] = ..., only_open: _Optional[bool] = ..., limit: _Optional[int] = ...) -> None: ...

class GetIncidentRequest(_message.Message):
    __slots__ = ("incident",)
    INCIDENT_FIELD_NUMBER: _ClassVar[int]
    incident: str
    def __init__(self, incident: _Optional[str] = ...) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ("after", "about", "limit", "before", "newest_first")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    after: int
    about: str
    limit: int
    before: int
    newest_first: bool
    def __init__(self, after: _Optional[int] = ..., about: _Optional[str] = ..., limit: _Optional[int] = ..., before: _Optional[int] = ..., newest_first: _Optional[bool] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("after_revision",)
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    after_revision: int
    def __init__(self, after_revision: _Optional[int] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("about",)
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    about: str
    def __init__(self, about: _Optional[str] = ...) -> None: ...

class OffersRequest(_message.Message):
    __slots__ = ("gpu_type", "gpus", "provider", "region")
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    gpu_type: str
    gpus: int
    provider: str
    region: str
    def __init__(self, gpu_type: _Optional[str] = ..., gpus: _Optional[int] = ..., provider: _Optional[str] = ..., region: _Optional[str] = ...) -> None: ...

class OfferList(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Offer]
    def __init__(self, items: _Optional[_Iterable[_Union[Offer, _Mapping]]] = ...) -> None: ...
