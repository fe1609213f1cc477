"""The command that brings an extra works where it is told: from a checkout, a wheel, an address."""

import json
import shlex
import subprocess
import sys
import tomllib

import pytest

from advisor import extras
from advisor.cli.main import EXTRA_OF
from advisor.extras import ROOT, core_and, install_command

PIP = [sys.executable, "-m", "pip", "install"]
NEEDED = ["rich>=13", 'Jinja2>=3.1; extra == "report"', 'uvloop>=0.22; os_name != "nt" and extra == "serve"']


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """An advisor that pip installed in a folder of packages, from what its record says."""
    folder = tmp_path / "instance_sizing_advisor-0.1.0.dist-info"
    folder.mkdir()
    lines = [f"Requires-Dist: {text}" for text in NEEDED]
    (folder / "METADATA").write_text("\n".join(["Name: instance-sizing-advisor", *lines]))
    monkeypatch.setattr(extras, "ROOT", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return lambda origin: (folder / "direct_url.json").write_text(json.dumps(origin))


def test_in_a_checkout_an_extra_comes_from_it_and_without_pip_uv_installs_it(monkeypatch):
    assert shlex.split(install_command("report", "zoo")) == [*PIP, "-e", f"{ROOT}[report,zoo]"]
    assert (ROOT / "pyproject.toml").is_file()
    monkeypatch.setattr(extras.metadata, "distributions", lambda **_: iter(()))
    words = shlex.split(install_command("zoo"))
    assert words[:5] == ["uv", "pip", "install", "--python", sys.executable]


def test_of_a_wheel_it_comes_from_the_wheel_and_by_name_where_that_has_gone(installed, tmp_path):
    wheel = tmp_path / "a wheel.whl"
    installed({"url": wheel.as_uri(), "archive_info": {}})
    assert shlex.split(install_command("report")) == [*PIP, "Jinja2>=3.1"]
    wheel.touch()
    assert shlex.split(install_command("report")) == [*PIP, f"{wheel}[report]"]


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ({"url": "https://x.example/a.whl", "archive_info": {}}, "https://x.example/a.whl"),
        ({"url": "https://x.example/a", "vcs_info": {"vcs": "git"}}, "git+https://x.example/a"),
    ],
)
def test_of_an_address_it_comes_from_there(installed, origin, words):
    installed(origin)
    wanted = f"instance-sizing-advisor[report] @ {words}"
    assert shlex.split(install_command("report")) == [*PIP, wanted]


def test_from_an_index_the_packages_are_named_with_their_conditions(installed):
    assert shlex.split(install_command("serve")) == [*PIP, 'uvloop>=0.22; os_name != "nt"']
    assert core_and({"report"}) == NEEDED[:2]


def test_setuptools_can_be_imported_after_an_install_command():
    """A finder of setuptools hands distutils back to Python once anybody looks for pip's module."""
    program = "from advisor.extras import install_command; install_command('zoo'); import setuptools"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_extra_that_is_told_is_declared_and_no_index_has_the_package():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRA_OF.values()) <= set(declared["optional-dependencies"])
    words = ["git", "grep", "-lE", r"pip install '?instance-sizing-advisor", "--"]
    told = subprocess.run([*words, "*.py", "*.md", "*.yml"], cwd=ROOT, capture_output=True)
    assert set(told.stdout.decode().split()) <= {"tests/advisor/test_extras.py", "CHANGELOG.md"}
