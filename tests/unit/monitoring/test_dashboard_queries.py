"""The Grafana dashboard: what can be checked without Prometheus."""

import json
import re
from collections import Counter

from tests.support.metrics_page import ROOT, series

DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "navarch.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def test_each_query_uses_metrics_and_variables_that_exist() -> None:
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
    for panel in PANELS:
        for target in panel["targets"]:
            assert set(re.findall(r"navarch_\w+", target["expr"])) <= series().keys()
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables
            assert target["datasource"]["uid"] == "${datasource}", "no data source of one reader"


def test_each_label_of_a_legend_is_kept_by_its_query() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            names = re.findall(r"navarch_\w+", target["expr"])
            known = set[str]().union(*(series()[name] for name in names))
            grouped = re.search(r"by \(([\w, ]+)\)", target["expr"])
            kept = set(grouped[1].split(", ")) if grouped else known
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


def test_panels_have_titles_of_their_own_and_do_not_overlap() -> None:
    titles = Counter(panel["title"] for panel in PANELS)
    cells = Counter(
        (x, y)
        for panel in DASHBOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )

    assert max(titles.values()) == 1
    assert max(cells.values()) == 1
    assert max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
