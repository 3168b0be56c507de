"""An incident of one node, just opened."""

from navarch.core.ids import IncidentId, NodeId
from navarch.core.incident import Incident, IncidentKind, Symptom
from navarch.testing.worlds import NOW

NAME = NodeId("training-0")
CHECK = "xid/79/GPU-0"
INCIDENT = Incident(
    id=IncidentId("inc-1"),
    kind=IncidentKind.HARDWARE,
    node=NAME,
    nodes=(NAME,),
    opened_at=NOW,
    last_at=NOW,
    title="XID 79",
    check=CHECK,
    symptoms=(Symptom(check=CHECK, reason="XID 79", node=NAME, first_at=NOW, last_at=NOW),),
)
