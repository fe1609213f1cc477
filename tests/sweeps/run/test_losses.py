"""Drivers in processes of their own that lose the database, the network to it, or the head of their
cluster: nothing that was stored is lost, and nothing measured twice."""

import os
import signal
import socket
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest
import sqlalchemy

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps import formats as files
from tests.sweeps.builders import LEFT_TO_THE_COLLECTOR
from tests.sweeps.ray_clusters import cluster_of, driver, numbered
from tests.sweeps.run.test_queue import TRIALS, started, wait_for

pytestmark = [pytest.mark.slow, *LEFT_TO_THE_COLLECTOR]


class Relay:
    """A TCP connection to a port of this machine that can stop, or be cut."""

    def __init__(self, port):
        self._port, self._open, self._is_cut, self._flows = port, set(), False, threading.Event()
        self._flows.set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def pause(self):
        """What is sent from now on waits on its way."""
        self._flows.clear()

    def cut(self):
        """Every connection ends, and each new one too."""
        self._is_cut = True
        for entry in list(self._open):
            with suppress(OSError):
                entry.shutdown(socket.SHUT_RDWR)

    def restore(self):
        self._is_cut = False
        self._flows.set()

    def close(self):
        self.cut()
        self._flows.set()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self):
        with suppress(OSError):  # the server is closed
            while True:
                here, _ = self._server.accept()
                if self._is_cut:
                    here.close()
                    continue
                there = socket.create_connection(("127.0.0.1", self._port))
                self._open |= {here, there}
                for pair in ((here, there), (there, here)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source, target):
        with suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                target.sendall(data)
        for entry in (source, target):
            self._open.discard(entry)
            entry.close()


@pytest.fixture
def relay(postgresql):
    with closing(Relay(postgresql.port)) as relay:
        yield relay


def by_way_of(relay, url):
    parsed = sqlalchemy.make_url(url).set(port=relay.port)
    return parsed.render_as_string(hide_password=False)


@pytest.mark.parametrize("loss", ["pause", "cut"])
def test_a_network_that_comes_back_costs_no_trial(postgresql, relay, loss):
    url = postgresql.new_database()
    with closing(SqlStore(url)) as store:
        item = started(by_way_of(relay, url), "one", patience_seconds=60)
        wait_for(store, 4)
        getattr(relay, loss)()
        time.sleep(3.0)
        relay.restore()
        measured, _ = item.communicate(timeout=60)
        assert item.returncode == 0
        assert Counter(measured.split()) == Counter(entry.trial_id for entry in TRIALS)
        assert set(store.summaries()) == {entry.trial_id for entry in TRIALS}


def test_a_network_that_stays_away_leaves_what_was_measured_in_a_file(postgresql, relay):
    url = postgresql.new_database()
    with closing(SqlStore(url)) as store:
        item = started(by_way_of(relay, url), "one", patience_seconds=0.5)
        wait_for(store, 4)
        relay.cut()
        first, text = item.communicate(timeout=60)
        assert item.returncode == 1
        assert "advisor measurements import" in text
        kept = files.read_file(Path(text.split()[-1]))
        assert not kept.refused
        store.append_all(kept.measurements)
        assert set(store.summaries()) == set(first.split())
        relay.restore()
        again = started(by_way_of(relay, url), "one", patience_seconds=60)
        second, _ = again.communicate(timeout=180)
        assert again.returncode == 0
        assert Counter((first + second).split()) == Counter(entry.trial_id for entry in TRIALS)


@pytest.mark.ray
def test_a_sweep_whose_head_is_lost_continues_on_another_cluster(postgresql):
    url, count = postgresql.new_database(), 24
    quickly = {"RAY_gcs_rpc_server_reconnect_timeout_s": "3"}
    with closing(SqlStore(url)) as store:
        with cluster_of({"cpus": 4, "trials": 4}) as cluster:
            first = driver(url, cluster.address, count, **quickly)
            wait_for(store, 8)
            processes = cluster.head_node.all_processes
            for kind in ("gcs_server", "raylet"):
                os.kill(processes[kind][0].process.pid, signal.SIGKILL)
            assert first.wait(timeout=240) != 0
            before = {row.trial.trial_id: row for row in store.all()}
            assert 8 <= len(before) < count
        with cluster_of({"cpus": 4, "trials": 4}) as cluster:
            assert driver(url, cluster.address, count).wait(timeout=240) == 0
        rows = {row.trial.trial_id: row for row in store.all()}
    assert set(rows) == {entry.trial_id for entry in numbered(count)}
    kept = {name for name, row in before.items() if row.status is Status.OK}
    assert {name: rows[name] for name in kept} == {name: before[name] for name in kept}
