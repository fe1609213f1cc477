"""The start script, run by bash in a sandbox: its end comes first, and comes whatever happens."""

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.core import set_initial_no_auth_action_count

from advisor.errors import DataError
from advisor.infra.aws.errors import policy
from advisor.infra.aws.guest.software import MOST_BYTES, Software
from tests.infra.aws.builders import a_job
from tests.infra.aws.guest.sandbox import sandbox, serving
from tests.infra.aws.reaping import moto_server, role_credentials

JOB = a_job(arguments=("--preset", "small"), disks={"/dev/sdf": "gp3"})
SOFTWARE = Software(b"", "0" * 64)
PER_BOOT = "per-boot/advisor-end"


@pytest.fixture
def box(tmp_path):
    return sandbox(tmp_path / "instance", AWS_EC2_METADATA_DISABLED="true")


def script(box, lasts=timedelta(hours=1), now=None, job=JOB):
    return box.user_data(job, SOFTWARE, lasts, now)


def timers(box):
    return [call for call in box.calls if call.startswith(("systemd-run", "shutdown -h +"))]


def test_both_timers_come_before_anything_else_and_the_end_last(box):
    box.run(script(box))
    first, second, *others = box.calls
    assert first.startswith("systemd-run --unit advisor-end --on-active 3")
    assert first.endswith("shutdown -h now")
    assert second in ("shutdown -h +59", "shutdown -h +60")
    assert others[-1] == "shutdown -h now"
    assert box.ends == 1
    subprocess.run([str(box.folder / PER_BOOT)], env=box.environment, check=True)
    assert box.ends == 2, "a second start of the machine is its end"


QUIET = "systemctl stop apt-daily.timer apt-daily-upgrade.timer dnf-makecache.timer"


def test_updates_stop_and_the_gpu_takes_its_highest_clocks_before_anything_is_installed(box):
    box.add_gpu()
    box.run(script(box))
    (begun,) = [index for index, call in enumerate(box.calls) if call.startswith("python3.13 -m venv")]
    quiet = [box.calls.index(entry) for entry in (QUIET, "nvidia-smi -pm 1", "nvidia-smi -ac 5001,1590")]
    assert quiet == sorted(quiet)
    assert quiet[-1] < begun
    assert any("unattended-upgrades.service" in call for call in box.calls[:begun])


def test_a_machine_that_does_not_get_quiet_measures_all_the_same(box):
    """An image without systemd's units, and a driver that takes no clocks."""
    box.answer("systemctl", 5)
    box.answer("nvidia-smi", 9)
    box.run(script(box))
    assert any(call.startswith("pip install") for call in box.calls)


@pytest.mark.parametrize("broken", ["systemd-run", "python3.13"])
def test_whatever_fails_the_machine_ends(box, broken):
    box.answer(broken, 1)
    box.run(script(box))
    assert box.calls[-1] == "shutdown -h now"
    assert timers(box)


def test_a_candidate_of_python_is_not_taken(box):
    """Ubuntu 22.04's python3.11 is 3.11.0rc1, and torch 2.13 cannot be imported by it: that must
    be seen before gigabytes are installed."""
    candidate = box.programs / "candidate"
    candidate.write_text("#!/bin/sh\nexit 1\n")
    candidate.chmod(0o755)
    maker = box.programs / "python3.11"
    maker.write_text(f'#!/bin/sh\nmkdir -p "$3/bin"\ncp {candidate} "$3/bin/python"\n')
    maker.chmod(0o755)
    (box.programs / "cp").symlink_to("/bin/cp")
    (box.programs / "python3.13").unlink()
    said = box.run(script(box))
    assert "no release of Python" in said
    assert any(call.startswith("apt-get") and call.endswith("python3-venv") for call in box.calls)
    assert not any(call.startswith("pip") for call in box.calls)
    assert box.calls[-1] == "shutdown -h now"


def test_a_prebuilt_image_keeps_its_environment(box):
    """`infra/image` made it; pip only looks whether all of it is there."""
    programs = box.folder / "root/venv/bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs / "pip").write_text(f"#!/bin/sh\necho pip $* >> {box.folder / 'calls'}\n")
    (programs / "pip").chmod(0o755)
    box.run(script(box))
    assert not any("-m venv" in call for call in box.calls)
    assert any(call.startswith("pip install") for call in box.calls)


def test_an_image_with_dnf_gets_its_python_so(box):
    box.answer("dnf", 0)
    (box.programs / "python3.13").unlink()
    box.run(script(box))
    assert "dnf install -yq python3.12" in box.calls
    assert not any(call.startswith("apt-get") for call in box.calls)


def test_one_timer_is_enough_and_without_any_nothing_is_begun(box):
    box.answer("systemd-run", 1)
    box.run(script(box))
    assert any("venv" in call for call in box.calls)
    (box.folder / "calls").unlink()
    box.answer("shutdown", 1)
    box.run(script(box))
    assert not any("venv" in call for call in box.calls)
    assert box.calls[-1] == "systemctl --force --force poweroff"


def test_a_place_that_cannot_be_written_is_the_end(box):
    (box.folder / "per-boot").write_text("a file, no folder")
    box.run(script(box))
    assert not any("venv" in call for call in box.calls)
    assert box.ends == 1


@pytest.mark.parametrize("late", [timedelta(seconds=-1), timedelta(hours=3), timedelta(days=9)])
def test_after_its_time_it_ends_at_once(box, late):
    """The instance was started by a request that was sent long ago."""
    began = datetime.now(UTC) - timedelta(hours=1) - late
    box.run(script(box, lasts=timedelta(hours=1, seconds=30), now=began))
    assert box.calls == ["shutdown -h now"]


def test_a_clock_that_is_behind_buys_no_time(box):
    """This machine's clock is a day behind the controller's."""
    box.run(script(box, now=datetime.now(UTC) + timedelta(days=1)))
    assert "--on-active 3600s" in box.calls[0]
    assert box.calls[1] == "shutdown -h +60"


def test_a_killed_script_ends_the_machine_too(box):
    """SIGTERM: somebody ends the script from outside."""
    waits = box.programs / "python3.13"
    waits.write_text(f"#!/bin/sh\necho began >> {box.folder / 'calls'}\nsleep 60\n")
    with box.started(script(box)) as process:
        while "began" not in box.calls:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
    assert box.calls[-1] == "shutdown -h now"


def test_it_holds_no_secret_and_its_parameters_are_quoted(box):
    nasty = a_job(bucket="b'; reboot; '", database_parameter="/advisor/database")
    text = script(box, job=nasty)
    assert "/advisor/database" not in text
    box.run(text)
    assert box.calls[-1] == "shutdown -h now"
    assert not any(call.startswith("reboot") for call in box.calls)


def test_the_same_launch_gives_the_same_script_and_fits(box):
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert script(box, now=now) == script(box, now=now)
    assert len(script(box, now=now)) < MOST_BYTES / 1.5
    with pytest.raises(DataError, match="within a minute"):
        script(box, lasts=timedelta(seconds=59))


# A start that fails leaves its log in the bucket, by the guest's role and curl alone.

BUCKET, INSTANCE = "advisor-test", "i-0123456789abcdef0"
LOGGED_JOB = a_job(prefix="sweeps/s1/g4dn.xlarge")
KEY = f"{LOGGED_JOB.prefix}/guests/{INSTANCE}.boot.log"


@pytest.fixture
def aws(monkeypatch):
    with moto_server(monkeypatch) as settings:
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield settings["AWS_ENDPOINT_URL"]


def guests_credentials(document):
    """Those of a role with that policy, as the metadata service gives them."""
    given = role_credentials("advisor-guest", INSTANCE, document)
    keys = {name: given[name] for name in ("AccessKeyId", "SecretAccessKey")}
    return json.dumps({**keys, "Token": given["SessionToken"]})


def failed_boot(tmp_path, endpoint, credentials):
    """The start script of an instance on which pip fails; AWS asks for rights meanwhile."""
    with serving() as service:
        role = "meta-data/iam/security-credentials/"
        service.told |= {role: "advisor-guest", f"{role}advisor-guest": credentials}
        box = sandbox(
            tmp_path / "instance",
            AWS_ENDPOINT_URL=endpoint,
            AWS_EC2_METADATA_SERVICE_ENDPOINT=service.address,
        )
        box.answer("python3.13", 0, pip=1)
        script = box.user_data(LOGGED_JOB, Software(b"", "0" * 64), timedelta(hours=1))
        script = script.replace("venv/bin/pip install", "echo no way to PyPI; venv/bin/pip install")

        set_initial_no_auth_action_count(0)(box.run)(script)
    return box


def test_a_failed_start_leaves_its_log_by_the_guests_role_and_ends(aws, tmp_path):
    """moto takes no request whose signature or right is wrong."""
    credentials = guests_credentials(policy("guest", bucket=BUCKET))
    box = failed_boot(tmp_path, aws, credentials)
    assert box.calls[-1] == "shutdown -h now"
    text = boto3.client("s3").get_object(Bucket=BUCKET, Key=KEY)["Body"].read().decode()
    assert text.splitlines()[-1] == "no way to PyPI"


@pytest.mark.parametrize("spoilt", ["right", "key"])
def test_a_bucket_that_refuses_the_log_keeps_no_machine_alive(aws, tmp_path, spoilt):
    document = policy("guest", bucket=BUCKET if spoilt == "key" else "another-one")
    credentials = guests_credentials(document)
    if spoilt == "key":
        credentials = json.dumps(json.loads(credentials) | {"SecretAccessKey": "x" * 40})
    box = failed_boot(tmp_path, aws, credentials)
    assert "403" in box.said
    assert box.calls[-1] == "shutdown -h now"
    with pytest.raises(ClientError, match="NoSuchKey"):
        boto3.client("s3").get_object(Bucket=BUCKET, Key=KEY)
