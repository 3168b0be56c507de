"""Tables of published traces as scenarios, and the messages for invalid tables."""

from datetime import timedelta
from pathlib import Path

import pytest

from navarch.cli.sim_files import import_tables
from navarch.core.errors import InvalidError
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario
from navarch.sim.trace.tables import read_jobs, read_nodes

OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,8,A100\nn-1,64000,262144,0,\n"
OPENB_JOBS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "a,1,1,2,1000,,LS,Running,100,700,100\n"
    "b,1,1,1,460,,BE,Running,160,460,160\n"
    "c,1,1,0,0,,BE,Running,160,460,160\n"
    "d,1,1,1,1000,,BE,Running,90000,90460,90000\n"
)
SPOT_NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num\n0,A10,4,192\n1,A10,4,192\n"
SPOT_JOBS = (
    "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,"
    "job_type\n"
    "7,13,A10,20,1,1,0,600,HP\n"
    "8,13,A10,8,2,2,30,300,Spot\n"
)


def held(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_openb_tables_are_read_and_omitted_rows_are_counted(tmp_path: Path) -> None:
    assert read_nodes(held(tmp_path, "n.csv", OPENB_NODES)) == [
        {"id": "n-0", "provider": "trace", "gpu_count": 8, "gpu_type": "A100"}
    ]
    jobs = read_jobs(held(tmp_path, "j.csv", OPENB_JOBS), until=timedelta(hours=1))
    assert [(x["name"], x["at"], x["duration"], x["preemptible"]) for x in jobs.plain] == [
        ("a", "0s", "10m", False),
        ("b", "1m", "5m", True),
    ]
    assert (jobs.without_gpu, jobs.too_late, jobs.shares) == (1, 1, 1)


def test_a_scenario_from_a_spot_table_runs_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "spot.yaml"
    import_tables(
        file,
        nodes=held(tmp_path, "n.csv", SPOT_NODES),
        jobs=held(tmp_path, "j.csv", SPOT_JOBS),
        lasts=timedelta(hours=1),
    )
    outcome = run_scenario(load_scenario(file))
    assert {job.name: job.gpus for job in outcome.jobs} == {"job-7": 1, "job-8": 4}
    assert outcome.figures.goodput.finished == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "not a table of machines"),
        ("sn,gpu,model\nn,many,A\n", "line 2: gpu is 'many'"),
        ("sn,gpu,model\nn,1.5,A\n", "line 2: gpu is '1.5', not a whole number"),
        ("sn,gpu,model\nn,-1,A\n", "line 2: gpu is '-1'"),
        ("sn,gpu,model\nn,1\n", "line 2: not as many values"),
        ("", "not a table of machines"),
    ],
)
def test_an_invalid_table_is_refused_with_the_place(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InvalidError, match=message):
        read_nodes(held(tmp_path, "n.csv", text))


def test_the_whole_openb_trace_can_be_read() -> None:
    openb = Path(__file__).parents[4] / "shared" / "data" / "openb"
    if not openb.is_dir():
        pytest.skip("the openb tables are not here")
    nodes = read_nodes(openb / "openb_node_list_gpu_node.csv")
    assert len(nodes) == 1213
    assert sum(int(str(node["gpu_count"])) for node in nodes) == 6212
    assert len(read_jobs(openb / "openb_pod_list_default.csv").plain) > 5000
