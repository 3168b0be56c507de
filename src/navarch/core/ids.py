"""Typed identifiers: a NodeId is not an InstanceId, and mypy knows it."""

from typing import NewType

NodeId = NewType("NodeId", str)
"""Ours: the name of one machine we want, have or had. Never used twice."""

InstanceId = NewType("InstanceId", str)
"""Theirs: what a provider calls one of its machines."""

PoolName = NewType("PoolName", str)
ProviderName = NewType("ProviderName", str)

Token = NewType("Token", str)
"""Names one attempt to buy one machine, written down before the provider is asked."""

CommandId = NewType("CommandId", str)
IncidentId = NewType("IncidentId", str)
RecoveryId = NewType("RecoveryId", str)

JobName = NewType("JobName", str)
"""Given by whoever submits the job, and free again once it is over and forgotten."""
