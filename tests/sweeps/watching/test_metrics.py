"""Metrics are what Prometheus reads."""

import http.client
import threading
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from advisor.errors import DataError, MeasuringError
from advisor.sweeps.events import collected
from advisor.sweeps.watching.progress import TextFile, served, sweep_registry
from tests.alike import assert_golden_text
from tests.sweeps.builders import standing

GOLDEN = Path(__file__).parents[2] / "golden" / "sweep_metrics.prom"


def registry(**changes):
    return sweep_registry(lambda: standing(**changes))


def page(**changes):
    return generate_latest(registry(**changes)).decode()


def test_the_page_is_the_golden_one_and_shows_no_price_or_heartbeat_where_there_is_none():
    assert_golden_text(GOLDEN, page())
    bare = page(usd=None, last_heartbeat_at=None)
    assert "usd" not in bare
    assert "timestamp" not in bare


def answered(port, path):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()


def test_they_are_served_as_they_are_now_no_longer_than_the_sweep_and_on_no_taken_port():
    left = iter([16, 15])
    now = sweep_registry(lambda: standing(left=next(left)))
    with served(now, 0) as port:
        status, kind, body = answered(port, "/metrics")
        assert (status, kind.partition(";")[0]) == (200, "text/plain")
        assert "advisor_sweep_trials_left 16.0" in body
        assert "advisor_sweep_trials_left 15.0" in answered(port, "/metrics")[2]
    with pytest.raises(ConnectionError):
        answered(port, "/metrics")
    with served(registry(), 0) as port, pytest.raises(MeasuringError, match="--metrics-port"):
        served(registry(), port).__enter__()


def test_the_file_is_whole_at_any_moment_and_one_that_fails_later_is_told_once(tmp_path):
    """The runner's and that of the heartbeat."""
    left = iter([16, 15])
    file = TextFile(tmp_path / "a.prom", sweep_registry(lambda: standing(left=next(left))))
    assert "trials_left 16.0" in (tmp_path / "a.prom").read_text()
    file.update()
    assert "trials_left 15.0" in (tmp_path / "a.prom").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["a.prom"]
    file = TextFile(tmp_path / "a.prom", registry())

    def write():
        for _ in range(100):
            file.update()

    threads = [threading.Thread(target=write) for _ in range(4)]
    with collected() as expected:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert expected == []
    assert (tmp_path / "a.prom").read_text() == page()
    folder = tmp_path / "f"
    folder.mkdir()
    file = TextFile(folder / "a.prom", registry())
    (folder / "a.prom").unlink()
    folder.rmdir()
    with collected() as expected:
        file.update()
        file.update()
    assert [line["event"] for line in expected] == ["metrics_file_failed"]


@pytest.mark.parametrize("path", ["/dev/null", "missing/a.prom", "."])
def test_a_place_that_takes_no_file_is_refused_and_left_as_it_is(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="--metrics-file"):
        TextFile(Path(path), registry())
    assert Path("/dev/null").is_char_device()
