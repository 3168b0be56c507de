"""`navarch xid`, as it is typed."""

import json

from click.testing import CliRunner

from navarch.cli.main import navarch

LOG = b"""hello
NVRM: Xid (PCI:0000:3b:00): 79, pid=12, name=python3, GPU has fallen off the bus.
\xff\xfe not text
nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 12020, Fatal, Link 12 egress sequence ID error\r
NVRM: loading NVIDIA UNIX Open Kernel Module
"""


def run(*words: str, given: bytes = b"") -> str:
    result = CliRunner().invoke(navarch, list(words), input=given)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_number_is_explained_with_what_we_do_about_it() -> None:
    told = run("xid", "79")

    assert "fallen off the bus" in told
    assert "reboot the node" in told
    assert "replace the node" in run("xid", "64", "table is full")
    assert json.loads(run("xid", "31", "-o", "json"))["action"] == "restart_app"
    assert "SXid 20034" in run("xid", "20034")
    assert "not in our catalogue" in run("xid", "174", "--driver", "615.10")


def test_a_log_becomes_one_line_of_json_for_every_error_in_it() -> None:
    first, second = map(json.loads, run("xid", "parse", "-", given=LOG).splitlines())

    assert first == {
        "line": 2,
        "code": 79,
        "kind": "xid",
        "pci": "0000:3b:00",
        "pid": 12,
        "name": "python3",
        "text": "GPU has fallen off the bus.",
        "action": "reboot_node",
        "fatal": True,
    }
    assert (second["line"], second["kind"], second["code"]) == (4, "sxid", 12020)
    assert (second["pid"], second["name"], second["fatal"]) == (None, None, True)
    assert second["text"] == "Fatal, Link 12 egress sequence ID error"
