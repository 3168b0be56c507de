"""Observations of several sources become one event."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.health.xid.fusion import Fusion, Observation

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOURCES = ("kmsg", "tracepoint", "nvml")


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def seen(source: str, code: int, seconds: float, text: str = "", device: str = "a") -> Observation:
    return Observation(source=source, at=at(seconds), device=device, code=code, text=text)


def events(*observations: Observation) -> list[tuple[int, str, str]]:
    fusion = Fusion(SOURCES)
    made = {}
    for observation in observations:
        for event in fusion.see([observation], now=observation.at):
            made[event.number] = event
    return [(event.code, event.device, event.text) for event in made.values()]


def test_log_and_nvml_observations_become_one_event() -> None:
    assert events(seen("kmsg", 31, 0.0, "MMU"), seen("nvml", 31, 0.02)) == [(31, "a", "MMU")]
    assert events(seen("nvml", 31, 0.0), seen("kmsg", 31, 0.02, "MMU")) == [(31, "a", "MMU")]


def test_three_lines_about_one_exception_are_one_event() -> None:
    lines = [seen("kmsg", 13, second, f"line {second}") for second in (0.0, 0.002, 0.004)]

    assert events(*lines, seen("nvml", 13, 0.11)) == [(13, "a", "line 0.0")]


def test_other_devices_codes_and_times_are_separate_events() -> None:
    first = seen("kmsg", 31, 0.0)

    assert len(events(first, seen("kmsg", 31, 0.1, device="b"))) == 2
    assert len(events(first, seen("kmsg", 43, 0.1))) == 2
    assert len(events(first, seen("kmsg", 31, 1.5))) == 2
    assert len(events(first, seen("nvml", 31, 2.5))) == 2


def test_two_links_that_go_down_are_two_events_however_close() -> None:
    words = "NETIR_LINK_EVT Fatal XC0 i0 Link 0{} (0x0214{}5c6 0x00000000)"

    assert len(events(*(seen("kmsg", 149, 0.0, words.format(n, n)) for n in (1, 2)))) == 2


def test_a_source_that_misses_events_is_silent_until_it_sees_one() -> None:
    fusion = Fusion(("kmsg", "nvml"))
    for second in range(0, 40, 10):
        fusion.see([seen("kmsg", 31, float(second))], now=at(second))
    kmsg, nvml = fusion.sources

    assert (kmsg.events, kmsg.silent, nvml.missed, nvml.silent) == (4, False, 3, True)
    both = [seen("kmsg", 31, 50.0), seen("nvml", 31, 50.1)]
    fusion.see(both, now=at(50.1))
    fusion.see([], now=at(60))
    kmsg, nvml = fusion.sources
    assert (nvml.silent, nvml.missed, nvml.events, nvml.lines) == (False, 4, 1, 1)


def test_events_before_the_start_do_not_count_as_missed() -> None:
    fusion = Fusion(("kmsg", "nvml"), began=at(100))
    for second in (10, 20, 30, 40):
        fusion.see([seen("kmsg", 31, float(second))], now=at(100))
    fusion.see([seen("kmsg", 31, 101.0)], now=at(101))
    fusion.see([], now=at(110))
    kmsg, nvml = fusion.sources

    assert (kmsg.events, nvml.missed, nvml.silent) == (5, 1, False)


@given(
    truth=st.lists(
        st.tuples(st.sampled_from([13, 31, 48, 79]), st.sampled_from("ab")), max_size=12
    ),
    data=st.data(),
)
def test_every_event_that_any_source_kept_is_reported_once(
    truth: list[tuple[int, str]], data: st.DataObject
) -> None:
    observations: list[Observation] = []
    kept: list[tuple[int, str]] = []
    for place, (code, device) in enumerate(truth):
        copies = {source: data.draw(st.integers(0, 3), label=source) for source in SOURCES}
        for source, count in copies.items():
            late = data.draw(st.floats(0, 0.9))
            for _ in range(count):
                late += data.draw(st.floats(0, 0.02))
                text = "" if source == "nvml" else "words"
                observations.append(seen(source, code, place * 5 + late, text, device))
        if any(copies.values()):
            kept.append((code, device))
    fusion = Fusion(SOURCES)
    reported = {}
    for observation in sorted(observations, key=lambda s: s.at):
        for event in fusion.see([observation], now=observation.at):
            reported[event.number] = (event.code, event.device)
    assert list(reported.values()) == kept
