"""A Ray of our own is reached from this machine alone."""

import subprocess
import sys

import pytest

# In a process of its own: what Ray was told before, by whatever test, is not told to this one.
_LISTENING = """
import psutil
from advisor.sweeps.executors.ray.connection import connected
ray = connected(None)
ray.get(ray.remote(num_cpus=0)(lambda: None).remote())
me = psutil.Process()
for process in [me, *me.children(recursive=True)]:
    for one in process.net_connections(kind="inet"):
        if one.status == psutil.CONN_LISTEN:
            print(one.laddr.ip)
ray.shutdown()
"""
_LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.mark.ray
def test_nothing_of_our_ray_listens_on_another_address_than_loopback():
    done = subprocess.run(
        [sys.executable, "-c", _LISTENING], capture_output=True, text=True, check=True, timeout=120
    )
    found = set(done.stdout.split())
    assert found
    assert found <= _LOOPBACK
