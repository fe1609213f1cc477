#!/usr/bin/python3
"""The guest's first process, run as `init` or by systemd with `python=` and `tree=` among the kernel's words:
builds sandboxes as Docker, Kubernetes and systemd do, and has each looked at by `tests/host/inside.py`.
Standard library only."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
SYSTEMD = "/lib/systemd/systemd"
USER = 1000
MOUNTS = """
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /disk
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
mount /dev/vda /disk
chmod 1777 /tmp /disk
ip link set lo up
"""
SYSTEMD_MOUNTS = f"""
mkdir -p /disk /run/user/{USER}
mount /dev/vda /disk
chmod 1777 /tmp /disk
chown {USER}:{USER} /run/user/{USER}
"""
# What a container runtime does: own namespaces, own /proc, the group mounted as the root.
CONTAINER = (
    "unshare --mount --pid --fork --mount-proc sh -c '"
    'echo 0 > {place}/cgroup.procs && exec unshare --cgroup sh -c "'
    "umount /sys/fs/cgroup; mount -t cgroup2 -o {mode} cgroup2 /sys/fs/cgroup; {inside}\"'"
)
# The files of this checkout may be root's alone: reading them is allowed, and nothing else.
BECOME_USER = (
    f"exec setpriv --reuid={USER} --regid={USER} --clear-groups "
    "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
)
# What user@.service does, which needs PAM.
USER_MANAGER = (
    f"systemd-run --unit=user-manager --uid={USER} --gid={USER} -p Type=notify "
    f"-p 'Delegate=pids memory cpu' -E XDG_RUNTIME_DIR=/run/user/{USER} "
    f"-p AmbientCapabilities=CAP_DAC_READ_SEARCH {SYSTEMD} --user"
)
ALL = "cpu cpuset memory io pids"


def main():
    """As the first process, all sandboxes that need no manager; started by systemd, its own."""
    cmdline = Path("/proc/cmdline").read_text().split()
    words = dict(word.split("=", 1) for word in cmdline if "=" in word)
    first = os.getpid() == 1
    if first and "systemd.run" in words:
        Path("/.dockerenv").unlink(missing_ok=True)  # of this machine; the guest is no container
        os.execv(SYSTEMD, [SYSTEMD])
    if not first:
        sys.stdout = Path("/dev/console").open("w")  # noqa: SIM115 - as long as we run
    subprocess.run(["sh", "-c", MOUNTS if first else SYSTEMD_MOUNTS], check=False)
    report("guest", kernel=os.uname().release, cpus=os.cpu_count())
    guest = Guest(words["python"], words["tree"])
    wanted = words.get("only", "")
    for sandbox in SANDBOXES if first else SYSTEMD_SANDBOXES:
        if not wanted or sandbox.__name__ in wanted.split(","):
            started = time.monotonic()
            sandbox(guest)
            seconds = round(time.monotonic() - started)
            report("ended", sandbox=sandbox.__name__, seconds=seconds)
    report("all")
    os.sync()
    Path("/proc/sysrq-trigger").write_text("o")
    time.sleep(60)


def report(what, **facts):
    sys.stdout.write("@@ " + json.dumps({"what": what, **facts}) + "\n")
    sys.stdout.flush()


class Guest:
    """How sandboxes are entered; what is printed goes to the serial port."""

    def __init__(self, python, tree):
        self.python, self.tree = python, tree

    def inside(self, name, *looks):
        """The command line that looks at a sandbox from inside."""
        program = f"{self.python} -P -m tests.host.inside {name} {' '.join(looks)}"
        return f"cd {self.tree} && HOME=/tmp PYTHONPATH={self.tree} {program}"

    def enter(self, path, command):
        self.run(f"echo $$ > {path}/cgroup.procs && {command}")

    def contain(self, path, command, mode="rw"):
        """In a group, and in namespaces of its own."""
        self.run(CONTAINER.format(place=path, mode=mode, inside=command))

    def run(self, command):
        shell = ["sh", "-c", command]
        code = subprocess.run(shell, check=False, stdout=sys.stdout, stderr=sys.stdout).returncode
        if code:
            report("failed", code=code, command=command)


def group(path, controllers=ALL, **limits):
    """A group, with controllers handed down to it by all above it, and limits set from outside."""
    position = ROOT / path
    position.mkdir(parents=True, exist_ok=True)
    for above in reversed(
        [parent for parent in position.parents if parent == ROOT or ROOT in parent.parents]
    ):
        for name in controllers.split():
            (above / "cgroup.subtree_control").write_text(f"+{name}")
    for file, text in limits.items():
        (position / file.replace("_", ".", 1)).write_text(text)
    return position


def neighbour(path):
    """A process of the guest's that lives in a group."""
    process = subprocess.Popen(["sleep", "10000"])
    (path / "cgroup.procs").write_text(str(process.pid))
    return process


def outside(name, path, process=None):
    """What is left of a group, and whether its neighbour is where it was."""
    stays = process and str(process.pid) in (path / "cgroup.procs").read_text().split()
    children = sorted(path.name for path in path.iterdir() if path.is_dir())
    limit = (path / "cpu.max").read_text().strip()
    report("outside", sandbox=name, children=children, cpu_max=limit, neighbour_stays=stays)
    if process:
        process.kill()
        process.wait()


def docker(guest):
    """A private namespace, read-write; a limit set from outside; processes that fork meanwhile."""
    path = group("docker/box", memory_max=str(3 * 2**30))
    forking = "(while :; do /bin/true; done) & sleep 10000 & "
    guest.contain(path, forking + guest.inside("docker", "contract", "held", "trial"))
    outside("docker", path)


def pod(guest):
    """Limits on the pod and on the container, as kubelet sets them."""
    limits = {"cpu_max": "150000 100000", "memory_max": str(3 * 2**30), "cpuset_cpus": "0-1"}
    group("kubepods/pod", **limits)
    path = group("kubepods/pod/box", **limits)
    guest.contain(path, guest.inside("pod", "contract", "held", "trial"))
    outside("pod", path)


def read_only(guest):
    """Docker without further options."""
    path = group("docker/plain", cpu_max="200000 100000", memory_max=str(2**31))
    guest.contain(path, guest.inside("read_only", "held", "trial"), mode="ro")
    outside("read_only", path)


def bare(guest):
    """The kernel's own root group, as on a host without a manager of groups."""
    guest.enter(ROOT, guest.inside("bare", "contract", "held"))


def user_scope(guest):
    """An ordinary user's group: given away by its owner, with cpu, memory and pids alone."""
    path = group("user.slice/scope", "cpu memory pids")
    for file in (".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(path / file, USER, USER)
    inside = guest.inside("user_scope", "contract", "held", "trial")
    guest.enter(path, f"{BECOME_USER} sh -c '{inside}'")
    outside("user_scope", path)


def not_given(guest):
    """A group of systemd's own: root may do anything with it, but it is not ours."""
    path = group("system.slice/ssh.service")
    process = neighbour(path)
    guest.enter(path, guest.inside("not_given", "held"))
    outside("not_given", path, process)


def outsider(guest):
    """A process of another process namespace lives in the container's group: it cannot move."""
    path = group("docker/shared")
    process = neighbour(path)
    guest.contain(path, guest.inside("outsider", "held"))
    outside("outsider", path, process)


def threaded(guest):
    """A container whose group has a threaded child hands no memory controller down."""
    path = group("docker/threads")
    (path / "worker").mkdir()
    (path / "worker" / "cgroup.type").write_text("threaded")
    guest.contain(path, guest.inside("threaded", "held"))
    outside("threaded", path)


def systemd_scope(guest):
    """The advice for root: a scope of our own."""
    inside = guest.inside("systemd_scope", "contract", "held")
    guest.run(f"systemd-run --quiet --scope -p Delegate=yes sh -c '{inside}'")


def systemd_service(guest):
    """Not given its group: groups go beneath the kernel's root, where systemd may take controllers back."""
    guest.run(guest.inside("systemd_service", "held", "taken_back"))


def systemd_user_scope(guest):
    """The advice for users."""
    guest.run("systemctl start dbus")  # a user's systemd asks the machine's to move processes
    guest.run(USER_MANAGER)
    inside = guest.inside("systemd_user_scope", "contract", "held")
    as_user(guest, f"systemd-run --user --quiet --scope -p Delegate=yes sh -c '{inside}'")


def systemd_user_plain(guest):
    """The same without Delegate: the scope belongs to the user's systemd."""
    inside = guest.inside("systemd_user_plain", "held")
    as_user(guest, f"systemd-run --user --quiet --scope sh -c '{inside}'")


def as_user(guest, command):
    settings = f"export XDG_RUNTIME_DIR=/run/user/{USER} SYSTEMD_LOG_TARGET=console"
    guest.run(f"{settings}; {BECOME_USER} {command}")


SANDBOXES = (docker, pod, read_only, bare, user_scope, not_given, outsider, threaded)
SYSTEMD_SANDBOXES = (systemd_scope, systemd_service, systemd_user_scope, systemd_user_plain)

if __name__ == "__main__":
    main()
