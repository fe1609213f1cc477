import json

import pytest

from advisor.sweeps.worker.machine_state import changes, machine_state

STAT = "cpu  9 9 9 9 9 9 9 900\ncpu0 1 0 1 5 0 0 0 100\ncpu1 1 0 1 5 0 0 0 300\n"


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_clocks_stolen_time_and_heat_of_the_trials_own_cpus_are_read(tmp_path):
    write(tmp_path, "proc/stat", STAT)
    for cpu, khz in ((0, 2_000_000), (1, 3_000_000)):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        write(tmp_path, f"{folder}/cpufreq/scaling_cur_freq", f"{khz}\n")
        write(tmp_path, f"{folder}/thermal_throttle/core_throttle_count", "4\n")
    both, one = (machine_state(cpus, root=tmp_path) for cpus in ((0, 1), (1,)))
    assert (both["cpu_mhz"], one["cpu_mhz"]) == (2500, 3000)
    assert both["cpu_thermal_throttles"] == 8
    assert both["steal_seconds"] == pytest.approx(4 / 3 * one["steal_seconds"])


def test_a_virtual_machine_tells_its_clock_in_cpuinfo(tmp_path):
    write(tmp_path, "proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2600.5\n\nprocessor\t: 1\n")
    assert machine_state([0], root=tmp_path)["cpu_mhz"] == 2600.5


def test_what_the_machine_does_not_tell_is_left_out(tmp_path):
    state = machine_state([0, 1], root=tmp_path)
    assert not {"cpu_mhz", "steal_seconds", "cpu_thermal_throttles", "gpu"} & set(state)
    assert set(changes(state, machine_state([0, 1], root=tmp_path), 2)) == set()


def test_this_machines_changes_are_json():
    before = machine_state([0])
    json.dumps(changes(before, machine_state([0]), 1))


def at(monotonic, wall, running=None, **more):
    running = monotonic if running is None else running
    return {"monotonic_seconds": monotonic, "wall_seconds": wall, "running_seconds": running, **more}


def test_a_wall_clock_that_is_set_is_told_by_how_much():
    found = changes(at(0, 1_000), at(10, 4_610), 1)
    assert found == {"wall_clock_jump_seconds": 3_600}
    assert changes(at(0, 4_610), at(10, 1_020), 1)["wall_clock_jump_seconds"] == -3_600


def test_a_slewed_clock_does_not_jump():
    assert changes(at(0, 0), at(3_600, 3_601.8), 1) == {}


def test_a_machine_that_slept_says_so():
    assert changes(at(0, 0), at(10, 310, running=310), 1)["suspended_seconds"] == 300


def test_stolen_time_is_a_share_of_the_trials_cpus():
    found = changes(at(0, 0, steal_seconds=5.0), at(10, 10, steal_seconds=9.0), 2)
    assert found["steal_share"] == pytest.approx(0.2)
