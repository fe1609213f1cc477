"""The prebuilt image: Packer takes its template, and its environment is the start script's."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import hcl2
import pytest

from advisor.infra.aws.guest.user_data import ROOT as INSTANCE_ROOT
from tests.infra.aws.guest.sandbox import sandbox

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "infra" / "image"


def parsed(name):
    return hcl2.loads((IMAGE / name).read_text())


@pytest.mark.skipif(not shutil.which("packer"), reason="needs packer")
def test_packer_takes_the_template(tmp_path):
    """In a copy: the archive is made before each build."""
    folder = shutil.copytree(IMAGE, tmp_path / "image")
    (folder / "software.tar.gz").write_bytes(b"")
    command = ["packer", "validate", str(folder / "advisor.pkr.hcl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_template_names_is_there():
    text = (IMAGE / "advisor.pkr.hcl").read_text()
    (build,) = parsed("advisor.pkr.hcl")["build"]
    assert len(build["provisioner"]) == 2
    named = set(re.findall(r"\$\{path\.root\}/([\w.]+)", text))
    assert named == {"software.tar.gz", "install.sh"}
    assert "packer" in parsed("plugins.pkr.hcl")


def test_it_installs_where_the_start_script_looks(tmp_path):
    """By bash, with recorders in place of apt and of Python."""
    text = (IMAGE / "install.sh").read_text()
    assert f"root=${{1:-{INSTANCE_ROOT}}}" in text
    box = sandbox(tmp_path / "instance")
    (box.programs / "python3.12").write_text((box.programs / "python3.13").read_text())
    (box.programs / "python3.12").chmod(0o755)
    archive = tmp_path / "software.tar.gz"
    for name in ("requirements.txt", "constraints.txt"):
        (tmp_path / name).write_text("")
    subprocess.run(["tar", "-czf", archive, "requirements.txt", "constraints.txt"], cwd=tmp_path, check=True)
    box.run(text.replace("${1:-", f"${{1:-{box.folder}").replace("/tmp/software", f"{tmp_path}/software"))
    assert any(
        one.startswith("pip install") and "--requirement" in one and "--constraint" in one
        for one in box.calls
    ), box.said
    assert "systemctl disable apt-daily.timer" in "\n".join(box.calls)
