"""Version 2 limits in sandboxes of a real kernel, built as Docker, Kubernetes and systemd do.

Two boots: one without a manager of groups, one with systemd. Emulated they take half an hour."""

import pytest

from advisor.domain import LimitedBy
from tests.host import boot

pytestmark = [pytest.mark.root, pytest.mark.timeout(7200)]
HELD = ("docker", "pod", "bare", "user_scope", "systemd_scope", "systemd_user_scope")
ALL_HELD = {"vcpus": "cgroup", "memory": "cgroup"}
PINNED = {"vcpus": "affinity", "memory": "cgroup"}


class Guest:
    def __init__(self, documents):
        self.documents = documents

    def of(self, sandbox, what):
        result = [
            document
            for document in self.documents
            if (document["what"], document.get("sandbox")) == (what, sandbox)
        ]
        assert result, f"the guest found no {what} in {sandbox}"
        return result[0]


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    if lacking := boot.missing():
        pytest.skip(f"no {lacking} here: `make host-deps` installs {boot.PACKAGES}")
    plain = boot.guest_of(tmp_path_factory.mktemp("plain"))
    systemd = boot.guest_of(tmp_path_factory.mktemp("systemd"), systemd=True)
    return Guest([*plain, *systemd])


@pytest.mark.parametrize("sandbox", HELD)
def test_the_kernel_keeps_every_promise_of_a_limiter(guest, sandbox):
    contract = guest.of(sandbox, "contract")
    assert contract["code"] == 0, contract["tail"]


@pytest.mark.parametrize("sandbox", HELD)
def test_cpu_time_and_memory_are_held(guest, sandbox):
    held = guest.of(sandbox, "held")
    for name, vcpus in (("vcpus_0.5", 0.5), ("vcpus_1", 1.0)):
        assert held[name]["limited_by"] == LimitedBy.CGROUP_V2
        assert held[name]["cores"] <= vcpus * 1.05
    assert held["memory_96"]["killed_for_memory"]
    assert 80 <= held["memory_96"]["mib_reached"] <= 96


@pytest.mark.parametrize("sandbox", ["docker", "pod", "bare", "systemd_scope"])
def test_reads_of_a_disk_are_held_to_their_rate(guest, sandbox):
    held = guest.of(sandbox, "held")
    assert held["disk_8"]["held"]["disk"] == "cgroup"
    assert held["disk_8"]["mib_per_second"] <= 8 * 1.05 < held["disk_free"]["mib_per_second"]


@pytest.mark.parametrize("sandbox", ["user_scope", "systemd_user_scope"])
def test_without_cpuset_cpus_are_pinned_and_without_io_no_rate_is_claimed(guest, sandbox):
    held = guest.of(sandbox, "held")
    assert held["vcpus_1"]["held"] == PINNED
    assert held["disk_8"]["limited_by"] == LimitedBy.NONE
    assert held["disk_8"]["held"] == {**PINNED, "disk": None}


@pytest.mark.parametrize("sandbox", ["read_only", "outsider", "threaded", "systemd_user_plain"])
def test_what_cannot_be_held_is_none(guest, sandbox):
    held = guest.of(sandbox, "held")
    assert held["vcpus_0.5"]["limited_by"] == held["disk_8"]["limited_by"] == LimitedBy.NONE
    assert held["vcpus_1"]["limited_by"] == LimitedBy.AFFINITY
    assert guest.of(sandbox, "doctor")["state"] == "warning"


@pytest.mark.parametrize("sandbox", ["outsider", "not_given"])
def test_processes_of_others_stay_where_they_are(guest, sandbox):
    outside = guest.of(sandbox, "outside")
    assert outside["neighbour_stays"]
    assert outside["children"] == []


@pytest.mark.parametrize(
    ("sandbox", "vcpus", "memory_mib"), [("pod", 1.5, 3072.0), ("read_only", 2.0, 2048.0)]
)
def test_the_containers_limits_are_the_machine(guest, sandbox, vcpus, memory_mib):
    size = guest.of(sandbox, "size")
    assert (size["vcpus"], size["memory_mib"]) == (vcpus, memory_mib)
    assert size["host_memory_mib"] > memory_mib
    assert size["is_whole"]


@pytest.mark.parametrize(
    ("sandbox", "limited_by", "held"),
    [
        ("docker", LimitedBy.CGROUP_V2, {**ALL_HELD, "disk": "cgroup"}),
        ("pod", LimitedBy.CGROUP_V2, ALL_HELD),
        ("user_scope", LimitedBy.CGROUP_V2, PINNED),
        ("read_only", LimitedBy.NONE, {"vcpus": None, "memory": "rlimit"}),
    ],
)
def test_a_real_trial_says_what_held_it(guest, sandbox, limited_by, held):
    row = guest.of(sandbox, "trial")
    assert row["status"] == "ok", row["reason"]
    assert row["limited_by"] == limited_by
    assert row["limits_held"] == held
    size = guest.of(sandbox, "size")
    assert (row["cpu_quota"], row["memory_limit_mib"], row["usable_cpus"]) == (
        size["cpu_quota"],
        size["memory_limit_mib"],
        size["cpus"],
    )


def test_a_limit_that_systemd_takes_back_is_no_longer_claimed(guest):
    taken = guest.of("systemd_service", "taken_back")
    assert taken["before"] == LimitedBy.CGROUP_V2
    assert taken["after"] == LimitedBy.NONE
