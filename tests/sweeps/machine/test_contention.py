import pytest

from advisor.sweeps.machine.processes import busy_seconds, judge


def judged(own, other, *, cpus=2, vcpus=2.0):
    return judge(busy=own + other, own=own, wall_seconds=1.0, cpus=cpus, vcpus=vcpus)


@pytest.mark.parametrize(
    ("own", "other", "cpus", "vcpus", "interfered"),
    [
        (2.0, 0.0, 2, 2.0, False),  # alone
        (1.5, 0.5, 2, 2.0, True),  # a neighbour takes what the trial would use
        (1.93, 0.07, 2, 2.0, False),  # housekeeping
        (0.5, 0.5, 1, 0.5, False),  # the trial has its full share
        (0.3, 0.7, 1, 0.5, True),  # it has not
        (0.2, 0.5, 2, 2.0, False),  # there is idle time: nobody waits
    ],
)
def test_a_trial_is_spoiled_when_others_take_what_it_would_have_used(own, other, cpus, vcpus, interfered):
    assert judged(own, other, cpus=cpus, vcpus=vcpus).interfered is interfered


def test_clock_ticks_finer_than_the_kernels_count_for_nobody():
    assert judged(1.0, -0.02).other_cores == 0


def test_busy_time_is_counted_on_the_trials_cpus_alone(tmp_path):
    stat = tmp_path / "stat"
    # user nice system idle iowait irq softirq steal guest
    stat.write_text(
        "cpu  0 0 0 0 0 0 0 0 0\n"
        "cpu0 100 10 20 9999 9999 5 6 7 100\n"
        "cpu1 9999 0 0 0 0 0 0 0 0\n"
        "cpu10 1 0 0 0 0 0 0 0 0\n"
    )
    assert busy_seconds([0], stat) == pytest.approx(1.48)
