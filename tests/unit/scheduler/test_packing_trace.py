"""The two CSV files of a trace: accepted input, and errors with file, line and column."""

from collections.abc import Iterable

import pytest
from bench.packing.trace import Machine, parse_machines, parse_pods, read_trace

from navarch.core.errors import InvalidError
from navarch.scheduler.packing.shape import Shape

NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


def lines(text: str) -> Iterable[str]:
    return text.splitlines(keepends=True)


def test_a_line_becomes_a_node() -> None:
    assert list(parse_machines(lines(NODES + "n1,96000,1024,8,G2\n"), "n.csv")) == [
        Machine("n1", 96000, 1024, 8, "G2")
    ]


def test_a_pod_may_name_models_and_columns_come_in_any_order() -> None:
    text = "gpu_spec,num_gpu,gpu_milli,memory_mib,cpu_milli\nT4|P100|T4,1,500,10,4000\n"

    assert list(parse_pods(lines(text), "p.csv")) == [Shape(4000, 10, 1, 500, ("P100", "T4"))]


def test_models_are_optional_and_a_pod_without_gpus_shares_nothing() -> None:
    text = "cpu_milli,memory_mib,num_gpu,gpu_milli\n4000,10,0,1000\n\n"

    assert list(parse_pods(lines(text), "p.csv")) == [Shape(4000, 10, 0, 0)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("n1,many,1,1,G2", "n.csv, line 2, cpu_milli: 'many' is not a whole number"),
        ("n1,1,-1,1,G2", "line 2, memory_mib: '-1' is not"),
        ("n1,1,1,65,G2", "line 2, gpu: 65 is more than 64; check the unit"),
        (",1,1,1,G2", "line 2, sn: is empty"),
        ("n1,1,1,1", "line 2: 4 cells under a header of 5"),
        ("n1,1,1,1,G2\nn1,1,1,1,G2", "line 3, sn: 'n1' is also on line 2"),
        ('n1,1,1,1,"G2', "line 2: unexpected end of data; is this a CSV file"),
    ],
)
def test_a_bad_node_is_rejected_with_its_line(row: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message.replace("?", r"\?")):
        list(parse_machines(lines(f"{NODES}{row}\n"), "n.csv"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("p,1,1,1,0,", "p.csv, line 2, gpu_milli: is 0 though num_gpu is not"),
        ("p,1,1,2,500,", "gpu_milli: is 500 for 2 GPUs; only one GPU can be shared"),
        ("p,1,1,1,1001,", "gpu_milli: 1001 is more than 1000"),
        ("p,1,1,1.5,1000,", "num_gpu: '1.5' is not a whole number"),
    ],
)
def test_a_bad_pod_is_rejected_with_its_line(row: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        list(parse_pods(lines(f"{PODS}{row}\n"), "p.csv"))


def test_a_header_without_required_columns_is_rejected_with_their_names() -> None:
    with pytest.raises(InvalidError, match="line 1: no column num_gpu, gpu_milli; the header must"):
        list(parse_pods(lines("cpu_milli,memory_mib\n1,1\n"), "p.csv"))


def test_an_empty_file_is_rejected() -> None:
    with pytest.raises(InvalidError, match="no column"):
        list(parse_pods([], "p.csv"))
    with pytest.raises(InvalidError, match="no line below the header"):
        list(parse_pods(lines(PODS), "p.csv"))


def test_a_trace_without_gpus_is_rejected() -> None:
    pods = lines(PODS + "p,1,1,1,1000,\n")

    with pytest.raises(InvalidError, match="no node has a GPU"):
        read_trace(lines(NODES + "n,1,1,0,\n"), pods, names=("n", "p"))
    with pytest.raises(InvalidError, match="no pod requests a GPU"):
        read_trace(
            lines(NODES + "n,1,1,1,G2\n"), lines(PODS + "p,1,1,0,0,\n"), names=("n.csv", "p.csv")
        )
