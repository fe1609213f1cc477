"""What the service refuses before it listens."""

import os
import tempfile
from pathlib import Path

import pytest

from advisor.cli.main import run
from advisor.cli.serve import body_bytes, request_rate
from advisor.errors import DataError, UsageError
from advisor.service import server
from advisor.service.server import check_may_listen
from advisor.service.settings import Settings


@pytest.mark.parametrize(
    "options", [("--host", "0.0.0.0"), ("--host", "::"), ("--public-host", "advisor.example")]
)
def test_without_keys_it_listens_on_this_machine_only(capsys, options):
    assert run(["serve", "--port", "1", *options]) == 2
    assert "advisor keys add NAME" in capsys.readouterr().err


def test_with_a_key_that_works_it_may_listen_elsewhere(key_of):
    key_of("read")
    check_may_listen(Settings(host="0.0.0.0"))
    check_may_listen(Settings(public_hosts=("advisor.example",)))


def test_a_key_that_has_expired_is_none(key_of):
    key_of("read", lifetime=60.0, now=1.0)
    with pytest.raises(UsageError, match="keys add"):
        check_may_listen(Settings(host="0.0.0.0"))


def test_an_audit_log_that_cannot_be_written_is_told_at_the_start(tmp_path):
    with pytest.raises(DataError, match="--audit-log"):
        check_may_listen(Settings(audit_log=str(tmp_path)))


def test_a_rate_is_so_many_a_second_and_a_body_has_a_size_with_its_unit():
    assert (request_rate(" 600/s "), request_rate("0"), body_bytes("1MiB")) == (600.0, 0.0, 1024**2)
    for read, texts in ((request_rate, ("-1", "5/min", "nan", "")), (body_bytes, ("5", "2GiB", "x"))):
        for text in texts:
            with pytest.raises(UsageError):
                read(text)


def test_half_of_tls_is_refused(capsys, tmp_path):
    (tmp_path / "certificate.pem").touch()
    words = ["serve", "--tls-certificate", str(tmp_path / "certificate.pem")]
    assert run(words) == 2
    assert "belong together" in capsys.readouterr().err


def test_folders_of_killed_servers_go_at_the_next_start(tmp_path, monkeypatch):
    """Of one that lives, which holds its lock, and of the operator nothing is taken."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    killed, alive, other = (
        tmp_path / name for name in ("advisor-metrics-killed", "advisor-metrics-alive", "other")
    )
    for folder in (killed, alive, other):
        folder.mkdir()
    lock = server._lock_of(alive)
    with server._metrics_folder(2) as own:
        assert {path.name for path in tmp_path.iterdir()} == {
            "advisor-metrics-alive",
            "other",
            Path(own).name,
        }
    os.close(lock)
