"""What a session's processes take: sampled of real ones, and what binds told of their samples."""

import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from advisor.errors import MeasuringError
from advisor.sweeps.machine.environment import machine_size
from advisor.sweeps.measure.usage import _NOTHING, Sample, UsageSampler, usage_of
from tests.processes import gone


@contextmanager
def running(script):
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def sampled(script, seconds=1.5):
    with running(script) as process, UsageSampler(process.pid, every_seconds=0.05) as sampler:
        time.sleep(seconds)
    assert gone(process.pid)
    return sampler.samples


def test_what_children_took_counts_also_when_they_have_ended():
    spin = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {spin.format(0.3)!r}])\n"
    samples = sampled(f"{child}import time; time.sleep(60)", seconds=6.0)
    assert samples[-1].total["cpu_seconds"] >= 0.2
    assert max(sample.processes for sample in samples) == 2
    assert samples[-1].processes == 1


def test_memory_is_what_the_processes_hold_themselves():
    samples = sampled("import time\nheld = b'x' * (200 << 20)\ntime.sleep(60)", seconds=4.0)
    assert 200 <= max(sample.held_mib for sample in samples) < 260


def samples_of(*rates, busiest=0.0, held_mib=100.0, blocked=0, gpus=()):
    """A sample a second of processes that use so many cores."""
    total, rows = 0.0, []
    for second, cores in enumerate(rates):
        total += cores
        rows.append(
            Sample(
                moment=float(second),
                total=_NOTHING | {"cpu_seconds": total, "read_bytes": second << 20},
                busiest=busiest,
                machine_seconds=total,
                is_blocked=second < blocked,
                held_mib=held_mib,
                processes=3,
                gpus=gpus,
            )
        )
    return rows


HERE = machine_size()
GPU = {"uuid": "GPU-1", "utilization_percent": 96, "own_memory_mib": 9000.0}


@pytest.mark.parametrize(
    ("samples", "bound"),
    [
        (samples_of(*[HERE.vcpus] * 20), "cpu"),
        (samples_of(*[0.98 * min(1, HERE.vcpus / 2)] * 20, busiest=0.98), "one_process"),
        (samples_of(*[0.1] * 20, blocked=15), "disk"),
        (samples_of(*[0.1] * 20, held_mib=0.95 * HERE.memory_mib), "memory"),
        (samples_of(*[0.1] * 20, gpus=(GPU,)), "gpu"),
        (samples_of(*[0.0] * 20), "nothing_sampled"),
    ],
)
def test_what_binds(samples, bound):
    assert usage_of(samples)["bound_by"] == bound


def test_the_start_of_a_script_is_no_steady_part_of_it():
    usage = usage_of(samples_of(*[1.9] * 8, *[0.5] * 30))
    assert usage["is_steady"]
    assert usage["cores"] == pytest.approx(0.5, rel=0.1)
    assert usage["needs"]["vcpus"] == 1
    assert usage["needs"]["memory_mib"] == pytest.approx(110, abs=1)
    assert usage["disk_read_mib_per_second"] == pytest.approx(1.0)
    assert not usage_of(samples_of(*[0.1 * second for second in range(30)]))["is_steady"]
    with pytest.raises(MeasuringError, match="too few"):
        usage_of(samples_of(1.0, 1.0))
