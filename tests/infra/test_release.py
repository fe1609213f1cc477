"""What is released: the wheel out of the source archive, installed where nothing else is."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONSTRAINTS = ROOT / "constraints.txt"
# Everything that may be installed side by side; `dev` has the tools of this repository.
EXTRAS = ",".join(sorted(set(PROJECT["optional-dependencies"]) - {"dev"}))
PIP = ("-m", "pip", "--disable-pip-version-check")
BESIDE = """
import advisor
import infra.own, models.own, sweeps.own
asked = {"model": "googlenet", "target_throughput": 500}
assert advisor.recommend(task="inference", **asked).recommendation
import advisor.infra, advisor.models, advisor.sweeps
assert advisor.models is not models
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """`python -m build` makes it out of the source archive: what that lacks, the wheel lacks."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode and not reaches_index():
        pytest.skip("no package index can be reached from here")
    assert not built.returncode, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
    assert list(folder.glob("*.tar.gz"))
    return path


def reaches_index():
    asked = [sys.executable, *PIP, "download", "--no-deps", "--dest", os.devnull, "click"]
    return not subprocess.run([*asked, "--dry-run"], capture_output=True).returncode


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wheel_in_an_environment_of_its_own_answers(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env" / "bin"
    install = [programs / "python", *PIP, "install", "--quiet", "-c", CONSTRAINTS]
    subprocess.run([*install, f"{wheel}[serve,mcp,report]"], check=True)
    environment = {"HOME": str(tmp_path), "PATH": f"{programs}:/usr/bin:/bin"}
    for question in (
        "recommend --task inference --model googlenet --target-throughput 500",
        "recommend --task generation --model meta-llama/Llama-3.1-8B --users 40",
        "predict --task training --model resnet50 --instance g5.xlarge",
        "memory --model resnet50",
        "networks resnet",
        "catalog list --gpu T4",
        "sweep plan --preset small",
        "report --task inference --model googlenet --target-throughput 500 --out report.html",
    ):
        subprocess.run(
            [programs / "advisor", *question.split()],
            check=True,
            capture_output=True,
            cwd=tmp_path,
            env=environment,
        )
    told = "from advisor.extras import install_command; print(install_command('zoo'))"
    asked = [programs / "python", "-c", told]
    said = subprocess.run(asked, check=True, capture_output=True, cwd=tmp_path, env=environment)
    assert shlex.split(said.stdout.decode())[3:] == ["install", f"{wheel}[zoo]"]
    checked = "import advisor.agents.protocol, advisor.service.app"
    subprocess.run([programs / "python", "-c", checked], check=True, cwd=tmp_path, env=environment)
    for kind in ("packages", "folders"):  # with and without `__init__.py`
        own = users_folders(tmp_path / kind, regular=kind == "packages")
        subprocess.run([programs / "python", "-c", BESIDE], check=True, cwd=own, env=environment)


def users_folders(place, *, regular):
    """A user's own folders of the names that rooms of this repository have."""
    for name in ("models", "sweeps", "infra"):
        (place / name).mkdir(parents=True)
        (place / name / "own.py").touch()
        if regular:
            (place / name / "__init__.py").touch()
    return place


@pytest.mark.slow
def test_every_file_that_git_has_of_the_packages_is_in_the_wheel(wheel):
    """But for what builds the bundle, and tables that it is built of."""
    packed = {re.sub(r"^advisor/(?=models/|sweeps/|infra/)", "", name) for name in names_in(wheel)}
    folders = ("advisor", "models", "sweeps")
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    kept = {name for name in listed.stdout.split() if not name.endswith((".po", ".pot", ".md"))}
    assert {name for name in kept if (ROOT / name).is_file()} - packed == set()


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_all_extras_resolve_together(version, wheel, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    subprocess.run([python, "-m", "venv", tmp_path / "env"], check=True)
    command = [tmp_path / "env" / "bin" / "python", *PIP, "install", "--dry-run", "--quiet"]
    subprocess.run([*command, "-c", CONSTRAINTS, f"{wheel}[{EXTRAS}]"], check=True)


def interpreter(version):
    """One on the path, or one of pyenv's, that starts."""
    folder = Path(os.environ.get("PYENV_ROOT", Path("~").expanduser() / ".pyenv")) / "versions"
    for program in (f"python{version}", *folder.glob(f"{version}.*/bin/python")):
        try:
            subprocess.run([program, "-c", "import venv"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return str(program)
    return None


def test_the_changelog_begins_with_this_version_or_what_is_not_released():
    headings = re.findall(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text())
    assert headings[0] in ("Unreleased", PROJECT["version"])
