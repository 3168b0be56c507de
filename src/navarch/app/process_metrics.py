"""Metrics of the server process."""

from navarch.core.fleet import Fleet


def render_process_metrics(fleet: Fleet, heartbeats: int) -> str:
    """Return the metrics in the text format of Prometheus."""
    waiting = sum(not command.over for command in fleet.commands.values())
    return (
        "# HELP navarch_store_revision Commits since the store was made.\n"
        "# TYPE navarch_store_revision counter\n"
        f"navarch_store_revision {fleet.revision}\n"
        "# HELP navarch_heartbeats_received_total Packed heartbeats since the server started.\n"
        "# TYPE navarch_heartbeats_received_total counter\n"
        f"navarch_heartbeats_received_total {heartbeats}\n"
        "# HELP navarch_commands_waiting Commands that are neither done nor expired.\n"
        "# TYPE navarch_commands_waiting gauge\n"
        f"navarch_commands_waiting {waiting}\n"
    )
