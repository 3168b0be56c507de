"""Records as `/dev/kmsg` hands them out: `priority,sequence,usec,flags;text`."""

from datetime import datetime, timedelta

from navarch.ports.host import KernelRecord


def parse_record(raw: bytes, *, now: datetime, uptime_s: float | None) -> KernelRecord | None:
    """Return a record of `/dev/kmsg`, or None for what is not one.

    With `uptime_s` the record's own time tells when it was written; without, it is new.
    """
    header, semicolon, rest = raw.decode("utf-8", "replace").partition(";")
    fields = header.split(",")
    if not semicolon or len(fields) < 3 or not all(f.isdecimal() for f in fields[:3]):
        return None
    priority, sequence, written_us = (int(field) for field in fields[:3])
    age_s = 0.0 if uptime_s is None else max(0.0, uptime_s - written_us / 1e6)
    text = rest.partition("\n")[0]  # What follows describes the device, in words for udev.
    return KernelRecord(
        sequence=sequence,
        at=now - timedelta(seconds=min(age_s, 10 * 365 * 86400.0)),
        text=text,
        from_kernel=priority < 8,
        raw=f"{header};{text}",
    )
