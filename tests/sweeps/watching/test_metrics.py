"""Metrics are what Prometheus reads."""

import http.client
import re
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import DataError, MeasuringError
from sweeps.events import collected
from sweeps.watching.exposition import CONTENT_TYPE, Family, exposition
from sweeps.watching.metrics import metrics_of
from sweeps.watching.serving import TextFile, served
from tests.sweeps.watching.builders import standing

GOLDEN = Path(__file__).parents[2] / "golden" / "sweep_metrics.prom"
# The grammar of the text format; a value is a float as Go writes it.
NUMBER = r"(?:[+-]?\d+(?:\.\d+)?(?:e[+-]\d+)?|NaN|[+-]Inf)"
LABELS = r'\{[a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*"\}'
SAMPLE = re.compile(rf"([a-z_]+)(?:{LABELS})? {NUMBER}")


def test_the_page_is_the_golden_one():
    assert exposition(metrics_of(standing())) == GOLDEN.read_text()


def test_names_follow_the_conventions_of_promtool():
    for family in metrics_of(standing()):
        assert re.fullmatch(r"advisor_sweep_[a-z_]+", family.name)
        assert (family.kind == "counter") == family.name.endswith("_total")
        assert family.help.endswith(".")
        assert not re.search(r"_(ms|milliseconds|minutes|hours|counter|gauge)(_|$)", family.name)


@given(st.text(max_size=30), st.floats())
def test_every_line_is_of_the_format_whatever_labels_and_values_hold(label, value):
    page = exposition([Family("a_total", "counter", label, (({"status": label}, value),))])
    about, kind, *samples = page.removesuffix("\n").split("\n")
    assert about.startswith("# HELP a_total ")
    assert kind == "# TYPE a_total counter"
    (sample,) = samples
    assert SAMPLE.fullmatch(sample)


def test_the_parser_of_prometheus_own_client_reads_it():
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client")
    read = {one.name: one for one in parser.text_string_to_metric_families(GOLDEN.read_text())}
    assert len(read) == len(metrics_of(standing()))
    ended = {one.labels["status"]: one.value for one in read["advisor_sweep_trials"].samples}
    assert ended == {"ok": 6, "failed": 1, "contaminated": 1, "out_of_memory": 0, "timed_out": 0}


def test_without_a_price_or_a_heartbeat_none_is_shown():
    page = exposition(metrics_of(standing(usd=None, last_heartbeat_at=None)))
    assert "usd" not in page
    assert "timestamp" not in page


def asked(port, path):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()


def test_they_are_served_at_one_path_and_no_longer_than_the_sweep():
    pages = iter(["first", "second"])
    with served(lambda: next(pages), 0) as port:
        assert asked(port, "/metrics") == (200, CONTENT_TYPE, "first")
        assert asked(port, "/metrics?x=1")[2] == "second"
        assert asked(port, "/")[0] == 404
    with pytest.raises(ConnectionError):
        asked(port, "/metrics")


def test_a_port_that_is_taken_is_refused_with_the_way_out():
    with served(str, 0) as port, pytest.raises(MeasuringError, match="--metrics-port"):
        served(str, port).__enter__()


def test_the_file_is_whole_at_any_moment_and_nothing_is_left_beside_it(tmp_path):
    pages = iter(["one\n", "two\n"])
    file = TextFile(tmp_path / "a.prom", lambda: next(pages))
    assert (tmp_path / "a.prom").read_text() == "one\n"
    file.update()
    assert (tmp_path / "a.prom").read_text() == "two\n"
    assert [one.name for one in tmp_path.iterdir()] == ["a.prom"]


def test_threads_that_write_at_once_spoil_nothing(tmp_path):
    page = "advisor 1\n" * 5_000
    file = TextFile(tmp_path / "a.prom", lambda: page)

    def write():
        for _ in range(100):
            file.update()

    threads = [threading.Thread(target=write) for _ in range(4)]
    with collected() as told:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert told == []
    assert (tmp_path / "a.prom").read_text() == page


@pytest.mark.parametrize("place", ["/dev/null", "missing/a.prom", "."])
def test_a_place_that_takes_no_file_is_refused_and_left_as_it_is(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="--metrics-file"):
        TextFile(Path(place), str)
    assert Path("/dev/null").is_char_device()


def test_a_file_that_fails_later_is_told_once_and_ends_nothing(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    file = TextFile(folder / "a.prom", str)
    (folder / "a.prom").unlink()
    folder.rmdir()
    with collected() as told:
        file.update()
        file.update()
    assert [one["event"] for one in told] == ["metrics_file_failed"]
