"""What is released: the image's steps held to the repository and built where an engine runs, Packer's
template, and the wheel out of the source archive, installed where nothing else is."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path

import hcl2
import pytest
import yaml

from advisor.infra.aws.guest.software import ROOT as INSTANCE_ROOT
from tests.infra.aws.guest.sandbox import sandbox

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "infra/Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Everything that may be installed side by side; `dev` has the tools of this repository.
EXTRAS = sorted(set(PROJECT["optional-dependencies"]) - {"dev"})
# Instructions with their lines joined, comments left out.
STEPS = [
    tuple(line.split(None, 1))
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", TEXT)).splitlines()
    if line.strip()
]
INSTRUCTIONS = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENV", "ENTRYPOINT"}


def of(instruction):
    return [rest for name, rest in STEPS if name == instruction]


def run(words, **options):
    """What the program says, where it ends well."""
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


def test_every_line_is_an_instruction_its_stages_are_known_and_its_steps_make_targets_with_known_versions():
    assert {name for name, _ in STEPS} <= INSTRUCTIONS
    stages: list[str] = []
    for base, _, name in (rest.split() for rest in of("FROM")):
        assert base in stages or re.fullmatch(r"python:3\.1[1-9]-slim", base)
        stages.append(name)
    assert stages == ["core", "full", "serve", "tested"]
    targets = set(re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text()))
    made = [word for step in of("RUN") for word in re.findall(r"\bmake (\w+)", step)]
    assert made == ["recommend", "setup", "lint", "test"]
    assert "make setup" not in TEXT[: TEXT.index("FROM full AS tested")]  # it has the test tools
    assert set(made) <= targets
    installed = [step for step in of("RUN") if "pip install" in step]
    assert len(installed) == 3
    for pip in installed:
        (named,) = re.findall(r"\[([\w,]+)\]", pip)
        assert set(named.split(",")) <= set(EXTRAS)
        (constraints,) = re.findall(r"--constraint (\S+)", pip)
        assert (ROOT / constraints).is_file()


BASE = f"docker.io/library/{of('FROM')[0].split()[0]}"


def engine_or_skip():
    """The first container engine that runs something in the base image here."""
    result = [name for name in ("docker", "podman", "buildah") if shutil.which(name)]
    for engine in result:
        with suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            with container(engine, BASE) as inside:
                run([*inside, "true"], timeout=300)
            return engine
    pytest.skip(f"no container engine (found: {result}) runs {BASE} here")


@contextmanager
def container(engine, tag):
    """Words before a command that runs in a container of the image."""
    if engine != "buildah":
        yield [engine, "run", "--rm", "--entrypoint", "", tag]
        return
    name = run([engine, "from", tag]).strip()
    try:
        yield [engine, "run", name, "--"]
    finally:
        run([engine, "rm", name])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("stage", ["core", "serve", "full"])
def test_an_engine_builds_it_and_it_answers(stage):
    """`full` downloads gigabytes; no test tool is in any."""
    engine = engine_or_skip()
    tag = f"localhost/advisor-test:{stage}"
    build = [engine, "build", "-f", "infra/Dockerfile", "--target", stage, "-t", tag, "."]
    subprocess.run(build, cwd=ROOT, check=True)
    with container(engine, tag) as inside:
        question = ["advisor", "recommend", "--task", "inference", "--model", "googlenet"]
        subprocess.run([*inside, *question], check=True)
        packages = run([*inside, "python", "-m", "pip", "list"])
    assert not {"pytest", "moto", "playwright"} & set(packages.lower().split())


def test_what_rents_runs_without_root_and_the_templates_commands_are_the_entry_points():
    core = STEPS[: [rest for _, rest in STEPS].index("core AS full")]
    assert [rest for name, rest in core if name == "USER"] == ["advisor"]
    assert of("ENTRYPOINT") == ['["advisor"]']
    assert {".git", ".venv"} <= set((ROOT / ".dockerignore").read_text().split())
    tasks = yaml.safe_load((ROOT / "infra/cloudformation/schedules.yaml").read_text())
    (reaper,) = tasks["Resources"]["ReaperTask"]["Properties"]["ContainerDefinitions"]
    assert reaper["Command"] == ["cloud", "reap"]


IMAGE = ROOT / "infra" / "image"


def parsed(name):
    return hcl2.loads((IMAGE / name).read_text())


@pytest.mark.skipif(not shutil.which("packer"), reason="needs packer")
def test_packer_takes_the_template(tmp_path):
    """In a copy: the archive is made before each build."""
    folder = shutil.copytree(IMAGE, tmp_path / "image")
    (folder / "software.tar.gz").write_bytes(b"")
    subprocess.run(["packer", "validate", folder / "advisor.pkr.hcl"], check=True)


def test_what_the_template_names_is_there_and_installs_where_the_start_script_looks(tmp_path):
    text = (IMAGE / "advisor.pkr.hcl").read_text()
    (build,) = parsed("advisor.pkr.hcl")["build"]
    assert len(build["provisioner"]) == 2
    named = set(re.findall(r"\$\{path\.root\}/([\w.]+)", text))
    assert named == {"software.tar.gz", "install.sh"}
    assert "packer" in parsed("plugins.pkr.hcl")
    # By bash, with recorders in place of apt and of Python.
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
    calls = "\n".join(box.calls)
    assert re.search("(?m)^pip install (?=.*--requirement).*--constraint", calls), box.said
    assert "systemctl disable apt-daily.timer" in calls


# What is released: the wheel out of the source archive, installed where nothing else is.

CONSTRAINTS = ROOT / "constraints.txt"
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
    request = [sys.executable, *PIP, "download", "--no-deps", "--dest", os.devnull, "click"]
    return not subprocess.run([*request, "--dry-run"], capture_output=True).returncode


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wheel_in_an_environment_of_its_own_answers(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env" / "bin"
    install = [programs / "python", *PIP, "install", "--quiet", "-c", CONSTRAINTS]
    subprocess.run([*install, f"{wheel}[serve,report]"], check=True)
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
        run([programs / "advisor", *question.split()], cwd=tmp_path, env=environment)
    expected = "from advisor.extras import install_command; print(install_command('zoo'))"
    said = run([programs / "python", "-c", expected], cwd=tmp_path, env=environment)
    assert shlex.split(said)[3:] == ["install", f"{wheel}[zoo]"]
    checked = "import advisor.agents, advisor.service.app"
    run([programs / "python", "-c", checked], cwd=tmp_path, env=environment)
    for kind in ("packages", "folders"):  # with and without `__init__.py`
        own = users_folders(tmp_path / kind, regular=kind == "packages")
        run([programs / "python", "-c", BESIDE], cwd=own, env=environment)


def users_folders(path, *, regular):
    """A user's own folders of the names that rooms of this repository have."""
    for name in ("models", "sweeps", "infra"):
        (path / name).mkdir(parents=True)
        (path / name / "own.py").touch()
        if regular:
            (path / name / "__init__.py").touch()
    return path


@pytest.mark.slow
def test_every_file_that_git_has_of_the_packages_is_in_the_wheel(wheel):
    """But for what builds the bundle, and tables that it is built of."""
    names = zipfile.ZipFile(wheel).namelist()
    packed = {re.sub(r"^advisor/(?=models/|sweeps/|infra/)", "", name) for name in names}
    listed = run(["git", "ls-files", "advisor", "models", "sweeps"], cwd=ROOT).split()
    kept = {name for name in listed if not name.endswith((".po", ".pot", ".md"))}
    assert {name for name in kept if (ROOT / name).is_file()} - packed == set()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_all_extras_resolve_together(version, wheel, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    subprocess.run([python, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    command = [sys.executable, *PIP, "--python", tmp_path / "env", "install", "--dry-run", "--quiet"]
    subprocess.run([*command, "-c", CONSTRAINTS, f"{wheel}[{','.join(EXTRAS)}]"], check=True)


def interpreter(version):
    """One on the path, or one of pyenv's, that starts."""
    folder = Path(os.environ.get("PYENV_ROOT", Path("~").expanduser() / ".pyenv")) / "versions"
    for program in (f"python{version}", *folder.glob(f"{version}.*/bin/python")):
        with suppress(OSError, subprocess.CalledProcessError):
            run([program, "-c", "import venv"])
            return str(program)
    return None


def test_the_changelog_begins_with_this_version_or_what_is_not_released():
    headings = re.findall(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text())
    assert headings[0] in ("Unreleased", PROJECT["version"])
