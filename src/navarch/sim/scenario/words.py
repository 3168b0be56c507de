"""Kinds of value that several parts of a scenario share."""

from enum import StrEnum

from navarch.config.kinds import Integer, MapOf, Real

SHARE = Real(most=1.0, example="0.5")
WEIGHTS = MapOf(each=Real(example="50"))
ANY_NUMBER = Real(least=-1e9, example="10")
GPU_INDEX = Integer(least=-1, most=1023, example="0")
XID = Integer(least=0, most=99_999, example="79")


class FailureType(StrEnum):
    """What can go wrong with a machine."""

    XID_ERROR = "xid_error"
    TEMPERATURE = "temperature"
    NVML_FAILURE = "nvml_failure"
    BACKEND_ERROR = "backend_error"
    BOOT_FAILURE = "boot_failure"
    DEVICE_ERROR = "device_error"
    MEMORY_ERROR = "memory_error"
    NVLINK_ERROR = "nvlink_error"
    NETWORK = "network"


class Scope(StrEnum):
    """Which machines a thing strikes together."""

    NODE = "node"
    RACK = "rack"
    ZONE = "zone"
    REGION = "region"
    PROVIDER = "provider"
    PERCENTAGE = "percentage"
    ALL = "all"
