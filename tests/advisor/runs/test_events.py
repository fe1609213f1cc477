"""Events of a growing log: none lost, none twice, resumed by any process."""

import json

from hypothesis import given
from hypothesis import strategies as st

from advisor.runs.sweeps.status import EventLog


def line(event, **facts):
    return json.dumps({"time": "2026-11-21T00:00:00Z", "event": event, **facts}) + "\n"


def numbers(events):
    return [event.facts["number"] for event in events]


def test_events_are_named_by_what_happened_and_a_line_is_told_when_it_is_whole(tmp_path):
    path = tmp_path / "events.jsonl"
    log, whole = EventLog(path), line("began", number=1)
    assert log.look() == []
    path.write_text(whole[:20])
    assert log.look() == []
    path.write_text(whole)
    assert numbers(log.look()) == [1]
    path = tmp_path / "events.jsonl"
    path.write_text(line("began", number=1))
    for bad in ("x", "ffff-1", "-", "f" * 40):
        assert numbers(EventLog(path, bad).look()) == [1]
    path = tmp_path / "events.jsonl"
    path.write_text(
        line("sweep_began", trials=2)
        + line("heartbeat")
        + line("began", trial_id="a")
        + line("attempt_ended", trial_id="a")
        + line("stored", trial_id="a", status="ok")
        + line("stored", trial_id="b", status="failed", reason="why")
        + "torn {"
    )
    events = EventLog(path).look()
    assert [event.name for event in events] == ["began", "trial_started", "trial_done", "trial_failed"]
    assert events[-1].facts["reason"] == "why"
    path = tmp_path / "talk.log"
    path.write_bytes(b"launching\x1b[2J\n\nready\n")
    said = [event.facts["text"] for event in EventLog(path, says=True).look()]
    assert said == ["launching?[2J", "ready"]


@given(st.lists(st.sampled_from(["tell", "resume", "look"]), max_size=40))
def test_nothing_is_lost_or_told_twice_by_whoever_looks(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    path.touch()
    log, text, seen, last = EventLog(path), 0, [], None
    for step in steps:
        if step == "tell":
            with path.open("a") as file:
                file.write(line("began", number=text))
            text += 1
        elif step == "resume" and last:
            log = EventLog(path, last)
        else:
            result = log.look()
            seen += numbers(result)
            last = result[-1].id if result else last
    assert seen + numbers(log.look()) == list(range(text))
