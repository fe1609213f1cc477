"""What a sandbox looks like from inside: the machine's size, what is held, and a real trial."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from advisor.domain import MIB
from advisor.runs.doctor import check_limits
from advisor.sweeps.machine.environment import block_device, machine_size
from advisor.sweeps.trial.cgroups import strongest_limits
from advisor.sweeps.trial.limits import LimitRequest, read_usage

DISK = Path("/disk")
BURN = "while True: pass"
EAT = "import sys\nheld = []\nwhile True: held.append(bytearray(2**20)); print(len(held), flush=True)"
READ = "import sys\nf = open(sys.argv[1], 'rb')\nwhile f.read(2**20): pass"
WAIT = "import sys; print('up', flush=True); sys.stdin.readline()\n"
SECONDS = 4.0
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


def main(name, *looks):
    print_found("size", sandbox=name, **size())
    print_found("doctor", sandbox=name, **doctor())
    for look in looks:
        print_found(look, sandbox=name, **LOOKS[look](name))


def print_found(what, **facts):
    sys.stdout.write("@@ " + json.dumps({"what": what, **facts}) + "\n")
    sys.stdout.flush()


def size():
    here = machine_size()
    request = LimitRequest(vcpus=here.vcpus, memory_mib=here.memory_mib, cpus=here.cpus)
    return {
        "vcpus": here.vcpus,
        "memory_mib": here.memory_mib,
        "cpu_quota": here.cpu_quota,
        "memory_limit_mib": here.memory_limit_mib,
        "cpus": len(here.cpus),
        "host_memory_mib": here.host_memory_mib,
        "is_whole": request.wants_whole_machine,
    }


def doctor():
    finding = check_limits()
    return {"state": finding.state, "found": finding.found, "advice": finding.advice}


def contract(_name):
    folder = DISK / str(os.getpid())
    words = "-P -m pytest tests/contracts/test_limiters.py -k CgroupV2 -p no:cacheprovider --timeout 900"
    command = [sys.executable, *words.split(), f"--basetemp={folder}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)
    return {"code": answer.returncode, "tail": answer.stdout[-1500:]}


def held(_name):
    """Half a vCPU, 96 MiB and 8 MiB/s of the disk, each by itself: what the kernel lets through."""
    return {
        "vcpus_0.5": cpu_share(0.5),
        "vcpus_1": cpu_share(1.0),
        "memory_96": memory(96.0),
        "disk_8": disk(8.0),
        "disk_free": disk(None),
    }


def request(**changes):
    cpus = machine_size().cpus[-1:]
    return LimitRequest(**{"vcpus": 1.0, "memory_mib": 512.0, "cpus": cpus, **changes})


def run_held(wanted, code, *arguments):
    """A Python process under the limits, already running."""
    return strongest_limits(wanted), [sys.executable, "-c", WAIT + code, *arguments]


def start(hold, process):
    """Once Python itself has started (which takes seconds in an emulated machine)."""
    process.stdout.readline()
    hold.add(process.pid)
    hold.limit_memory()
    hold.engage()
    process.stdin.write(b"go\n")
    process.stdin.flush()


def cpu_share(vcpus):
    wanted = request(vcpus=vcpus)
    context, command = run_held(wanted, BURN)
    with context as hold, subprocess.Popen(command, **PIPES) as process:
        start(hold, process)
        time.sleep(1.0)
        begun, used = time.monotonic(), read_usage(hold.usage_source(), process.pid).cpu_seconds
        time.sleep(SECONDS)
        used = read_usage(hold.usage_source(), process.pid).cpu_seconds - used
        share = used / (time.monotonic() - begun)
        facts = {"limited_by": hold.limited_by, "held": hold.held, "cores": round(share, 3)}
        process.kill()
    return facts


def memory(memory_mib):
    wanted = request(memory_mib=memory_mib)
    context, command = run_held(wanted, EAT)
    with context as hold, subprocess.Popen(command, **PIPES) as process:
        start(hold, process)
        reached = 0
        for line in process.stdout:
            reached = int(line)
            if reached >= 4 * memory_mib:
                process.kill()
        process.wait()
        return {
            "limited_by": hold.limited_by,
            "mib_reached": reached,
            "killed_for_memory": hold.killed_for_memory(),
        }


def disk(mib_per_second):
    path = DISK / f"cold-{os.getpid()}"
    path.write_bytes(os.urandom(MIB) * 48)
    os.sync()
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    wanted = request(read_mib_per_second=mib_per_second, device=block_device(DISK))
    context, command = run_held(wanted, READ, str(path))
    with context as hold, subprocess.Popen(command, **PIPES) as process:
        start(hold, process)
        begun = time.monotonic()
        process.wait()
        seconds = time.monotonic() - begun
        facts = {"limited_by": hold.limited_by, "held": hold.held, "mib_per_second": round(48 / seconds, 2)}
    path.unlink()
    return facts


def taken_back(_name):
    """Systemd arranges its groups anew while a trial is held."""
    wanted = request(vcpus=0.5)
    with strongest_limits(wanted) as hold:
        hold.engage()
        before = hold.limited_by
        unit = ["systemd-run", "--quiet", "--wait", "-p", "CPUWeight=50", "true"]
        subprocess.run(unit, check=False)
        subprocess.run(["systemctl", "daemon-reload"], check=False)
        subprocess.run(
            ["systemctl", "set-property", "--runtime", "system.slice", "CPUWeight=60"], check=False
        )
        time.sleep(2)
        return {"before": before, "after": hold.limited_by, "held": hold.held}


# What each sandbox is asked for; `read_only` the container's own size, which nobody needs to hold.
TRIALS = {
    "docker": {"vcpus": 1.0, "memory_mib": 1024.0, "disk": 10.0},
    "read_only": {"vcpus": 0.5, "memory_mib": 1024.0},
    "pod": {"vcpus": 0.5, "memory_mib": 1024.0},
    "user_scope": {"vcpus": 1.0, "memory_mib": 1024.0},
}


def trial(name):
    from advisor.domain import DiskRate, Task
    from advisor.sweeps.trial.trial_process import run_attempt
    from tests.sweeps.builders import resources, trial_on

    wanted = TRIALS[name]
    rate, held = wanted.get("disk"), {key: wanted[key] for key in ("vcpus", "memory_mib")}
    disk = DiskRate(type="slow" if rate else "unlimited", read_mib_per_second=rate)
    plan = {"measure_seconds": 2.0, "min_steps": 5, "max_seconds": 60.0, "rel_error": 0.5}
    entry = trial_on(
        DISK / "photographs",
        network="alexnet",
        task=Task.INFERENCE,
        resources=resources(**held, physical_cores=wanted["vcpus"], disk=disk),
        accelerator="emulated:T4",
        emulated_step_seconds=0.05,
        plan={**plan, "loader_workers": 1, "prefetch_factor": 2},
    )
    row = run_attempt(entry, timeout_seconds=900.0)
    facts = row.environment
    names = ("limits_held", "cpus", "usable_cpus", "cpu_quota", "memory_mib", "memory_limit_mib", "cpus_used")
    used = row.cpu_seconds / row.wall_seconds if row.wall_seconds else None
    return {
        "status": row.status,
        "limited_by": row.limited_by,
        "reason": row.reason,
        "steps": len(row.step_seconds),
        "cores": used and round(used, 3),
        "peak_memory_mib": row.peak_memory_mib,
        **{entry: facts.get(entry) for entry in names},
    }


LOOKS = {"contract": contract, "held": held, "trial": trial, "taken_back": taken_back}

if __name__ == "__main__":
    main(*sys.argv[1:])
