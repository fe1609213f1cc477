"""The Dockerfile, which no container engine has built here: each step is held to the repository."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "infra/Dockerfile").read_text()
# Instructions with their lines joined, comments left out.
STEPS = [
    tuple(line.split(None, 1))
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", TEXT)).splitlines()
    if line.strip()
]
INSTRUCTIONS = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENV", "ENTRYPOINT"}


def of(instruction):
    return [rest for name, rest in STEPS if name == instruction]


def test_it_says_that_nobody_has_built_it():
    assert "NOT BUILT YET" in TEXT


def test_every_line_is_an_instruction_and_every_stage_is_known():
    assert {name for name, _ in STEPS} <= INSTRUCTIONS
    stages: list[str] = []
    for base, _, name in (rest.split() for rest in of("FROM")):
        assert base in stages or re.fullmatch(r"python:3\.1[1-9]-slim", base)
        stages.append(name)
    assert stages == ["core", "full", "serve", "tested"]


def test_its_steps_are_make_targets_that_exist():
    targets = set(re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text()))
    made = [word for step in of("RUN") for word in re.findall(r"\bmake (\w+)", step)]
    assert made == ["recommend", "setup", "lint", "test"]
    assert "make setup" not in TEXT[: TEXT.index("FROM full AS tested")]  # it has the test tools
    assert set(made) <= targets


def test_what_is_installed_beside_them_is_an_extra_with_the_known_versions():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core, full, serve = [step for step in of("RUN") if "pip install" in step]
    for pip in (core, full, serve):
        (named,) = re.findall(r"\[([\w,]+)\]", pip)
        assert set(named.split(",")) <= set(extras["optional-dependencies"]) - {"dev"}
        (constraints,) = re.findall(r"--constraint (\S+)", pip)
        assert (ROOT / constraints).is_file()


def engine_runs():
    """Whether a container engine answers here."""
    if not shutil.which("docker"):
        return False
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("stage", ["core", "full"])
def test_an_engine_builds_it_and_it_answers(stage):
    """`full` downloads gigabytes; no test tool is in either."""
    if not engine_runs():
        pytest.skip("no container engine runs here")
    tag = f"advisor-test:{stage}"
    build = ["docker", "build", "-f", "infra/Dockerfile", "--target", stage, "-t", tag, "."]
    subprocess.run(build, cwd=ROOT, check=True)
    asked = [
        "docker",
        "run",
        "--rm",
        tag,
        "recommend",
        "--task",
        "inference",
        "--model",
        "googlenet",
    ]
    subprocess.run(asked, check=True)
    packages = subprocess.run(
        ["docker", "run", "--rm", "--entrypoint", "python", tag, "-m", "pip", "list"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert not {"pytest", "moto", "playwright"} & set(packages.lower().split())


def test_what_rents_runs_without_root_and_the_templates_commands_are_the_entry_points():
    core = STEPS[: [rest for _, rest in STEPS].index("core AS full")]
    assert [rest for name, rest in core if name == "USER"] == ["advisor"]
    assert of("ENTRYPOINT") == ['["advisor"]']
    tasks = yaml.safe_load((ROOT / "infra/cloudformation/schedules.yaml").read_text())
    (reaper,) = tasks["Resources"]["ReaperTask"]["Properties"]["ContainerDefinitions"]
    assert reaper["Command"] == ["cloud", "reap"]


def test_nothing_of_a_users_own_is_copied():
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv"} <= set(ignored)
