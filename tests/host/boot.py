"""A Debian kernel with cgroup version 2 alone, booted in QEMU over this machine's own files: `/` read-only by
virtiofs beneath an overlay in memory, a made data set on a second disk, findings as JSON on the serial
port."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

PACKAGES = "qemu-system-x86 linux-image-cloud-amd64 initramfs-tools e2fsprogs"
FOUND = "@@ "
DISK_SAMPLES = 48
_VIRTIOFSD = "/usr/lib/qemu/virtiofsd"
_MODULES = ("virtio_pci", "virtio_blk", "virtiofs", "overlay")
_MEMORY = "4G"
# Emulated, a kernel takes some 20 s to its first process, and an import of torch 100 s.
_FIRST_WORD_SECONDS, _KVM_FIRST_WORD_SECONDS = 300, 60
_MOUNT_ROOT = """\
mountroot() {
    modprobe virtiofs && modprobe overlay && mkdir -p /lower /upper
    mount -t virtiofs -o ro root /lower
    mount -t tmpfs -o size=60% tmpfs /upper && mkdir /upper/changed /upper/work
    mount -t overlay -o lowerdir=/lower,upperdir=/upper/changed,workdir=/upper/work overlay $rootmnt
}
mount_top() { :; }
mount_premount() { :; }
mount_bottom() { :; }
"""


def kernel():
    """The newest kernel of Debian's that has its modules here; None without any."""
    kernels = sorted(Path("/boot").glob("vmlinuz-*-cloud-amd64"), key=lambda entry: entry.stat().st_mtime)
    return kernels[-1] if kernels else None


def missing():
    """What a guest needs and this machine lacks, in words; "" where nothing is missing."""
    tools = ["qemu-system-x86_64", "mkinitramfs", "mke2fs", _VIRTIOFSD]
    lacking = [tool for tool in tools if not shutil.which(tool)]
    if os.getuid() != 0:
        lacking.append("root")
    return ", ".join(lacking if kernel() else [*lacking, "a Debian cloud kernel in /boot"])


def make_disk(folder, data):
    image = folder / "disk.img"
    with image.open("wb") as file:
        file.truncate(2**31)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(data), str(image)], check=True)
    return image


def make_initramfs(folder):
    """Debian's own, with a script that mounts the root as `boot=shared` wants it."""
    config = folder / "initramfs"
    (config / "scripts").mkdir(parents=True, exist_ok=True)
    (config / "initramfs.conf").write_text("MODULES=list\nBUSYBOX=n\nCOMPRESS=gzip\n")
    (config / "modules").write_text("\n".join(_MODULES))
    (config / "scripts" / "shared").write_text(_MOUNT_ROOT)
    image = folder / "initrd"
    version = kernel().name.removeprefix("vmlinuz-")
    subprocess.run(["mkinitramfs", "-d", str(config), "-o", str(image), version], check=True)
    return image


def findings(folder, data, *, init, words="", seconds=3600):
    """Boot by KVM, else emulated, and return the JSON documents that the guest printed."""
    images = make_initramfs(folder), make_disk(folder, data)
    chosen = os.environ.get("ADVISOR_HOST_ACCEL")
    for accelerator in [chosen] if chosen else ["kvm", "tcg"]:
        log = folder / f"serial-{accelerator}.log"
        if accelerator == "kvm" and not os.access("/dev/kvm", os.W_OK):
            continue
        with _files_server(folder) as socket:
            command = _qemu(accelerator, images, socket, log, f"init={init} {words}")
            with (folder / "qemu.log").open("ab") as messages:
                guest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=messages)
            try:
                spoke = _wait(guest, log, accelerator, seconds)
            finally:
                guest.kill()
                guest.wait()
        if spoke:
            return [*_documents(log), {"what": "accelerator", "name": accelerator}]
    raise AssertionError(f"the guest did not start: {(folder / 'qemu.log').read_text()[-2000:]}")


def _qemu(accelerator, images, socket, log, words):
    initramfs, disk = images
    machine, cpu = ("kvm", "host") if accelerator == "kvm" else ("tcg,thread=multi", "max")
    options = (
        f"-nodefaults -no-reboot -display none -accel {machine} -cpu {cpu} -smp 3 -m {_MEMORY} "
        f"-object memory-backend-memfd,id=memory,size={_MEMORY},share=on -numa node,memdev=memory "
        f"-chardev socket,id=files,path={socket} -device vhost-user-fs-pci,chardev=files,tag=root "
        f"-drive file={disk},format=raw,if=virtio,cache=unsafe "
        f"-kernel {kernel()} -initrd {initramfs} -serial file:{log} -append"
    )
    kernels = f"console=ttyS0 quiet panic=-1 boot=shared root=shared {words}"
    return ["qemu-system-x86_64", *options.split(), kernels]


@contextmanager
def _files_server(folder):
    socket = folder / "files.sock"
    socket.unlink(missing_ok=True)
    with (folder / "files.log").open("wb") as log:
        server = subprocess.Popen(
            [_VIRTIOFSD, f"--socket-path={socket}", "-o", "source=/,cache=always,sandbox=chroot"],
            stdout=log,
            stderr=log,
        )
    try:
        for _ in range(100):
            if socket.exists():
                break
            time.sleep(0.1)
        yield socket
    finally:
        server.kill()
        server.wait()


def _wait(guest, log, accelerator, seconds):
    """Whether the guest spoke in time; it ends by itself when it has said all."""
    start = time.monotonic()
    first = _KVM_FIRST_WORD_SECONDS if accelerator == "kvm" else _FIRST_WORD_SECONDS
    while guest.poll() is None and time.monotonic() - start < seconds:
        time.sleep(0.5)
        if time.monotonic() - start > first and not _documents(log):
            return False
    return bool(_documents(log))


def _documents(log):
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return [json.loads(line.removeprefix(FOUND)) for line in lines if line.startswith(FOUND)]


def made_data(folder):
    from advisor.sweeps.datasets.making import ensure_dataset

    ensure_dataset(DISK_SAMPLES, folder / "data" / "photographs")
    return folder / "data"


def guest_of(folder, *, only="", systemd=False):
    """What `tests/host/guest.py` finds; in some sandboxes only, if wished."""
    tree = Path(__file__).resolve().parents[2]
    program = tree / "tests" / "host" / "guest.py"
    words = f"python={sys.executable} tree={tree}" + (f" only={only}" if only else "")
    if systemd:
        # It empties /tmp, where this checkout may lie.
        words += f" systemd.run={program} systemd.mask=systemd-tmpfiles-setup.service"
        words += " systemd.show_status=0"
    return findings(folder, made_data(folder), init=program, words=words)


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    place.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:]
    systemd = bool(names) and names[0].startswith("systemd")
    for item in guest_of(place, only=",".join(names), systemd=systemd):
        sys.stdout.write(json.dumps(item) + "\n")
