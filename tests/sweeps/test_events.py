"""What happens to trials is told in order, carried between processes, and costs nothing unheard."""

import json
import logging
import subprocess
import sys

from advisor.sweeps.events import WARNING, collected, emit, forward_all, subscribe
from advisor.sweeps.trial.child import started_worker

UNHEARD = """
from advisor.sweeps.events import emit, WARNING
emit("attempt_ended", level=WARNING, reason="nobody asked")
"""


def test_what_nobody_listens_to_is_printed_nowhere():
    done = subprocess.run([sys.executable, "-c", UNHEARD], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_events_survive_the_way_to_another_process():
    with collected() as there:
        emit("steady", trial_id="abc", steps=20, seconds=4.5)
        emit("stored", trial_id="abc", level=WARNING)
    assert json.loads(json.dumps(there)) == there
    here = []
    with subscribe(here.append):
        forward_all(there)
    assert [(one.event, one.trial_id, one.level) for one in here] == [
        ("steady", "abc", logging.INFO),
        ("stored", "abc", logging.WARNING),
    ]
    assert here[0].facts == {"steps": 20, "seconds": 4.5}
    assert here[0].at == there[0]["at"]


def test_what_a_worker_tells_is_handed_on_and_is_no_answer():
    with collected() as event:
        emit("loaded", trial_id="abc")
    script = f"print({json.dumps({'event': event[0]})!r}); print('\"ready\"')"
    with collected() as told, started_worker((sys.executable, "-c", script)) as worker:
        assert worker.receive(1e9) == "ready"
    assert [one["event"] for one in told] == ["loaded"]
