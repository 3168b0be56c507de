"""Typed identifiers: mypy rejects a NodeId in place of an InstanceId."""

from typing import NewType

NodeId = NewType("NodeId", str)
"""Our name for a machine that is wanted, present or gone. Never used twice."""

InstanceId = NewType("InstanceId", str)
"""The provider's name for one of its machines."""

PoolName = NewType("PoolName", str)
ProviderName = NewType("ProviderName", str)

Token = NewType("Token", str)
"""The name of one attempt to buy one machine, committed before the provider is called."""

CommandId = NewType("CommandId", str)
IncidentId = NewType("IncidentId", str)
RecoveryId = NewType("RecoveryId", str)

JobName = NewType("JobName", str)
"""Chosen by the submitter of the job; free again once the job is over and forgotten."""

AlertId = NewType("AlertId", str)
"""The cause and the name of the subject: `node-fault@training-3`."""

SilenceId = NewType("SilenceId", str)

TokenName = NewType("TokenName", str)
"""The name of a stored token."""
