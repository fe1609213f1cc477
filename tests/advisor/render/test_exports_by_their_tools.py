"""Exports as the tools that start them read them, each where it is installed: Compose's own types,
SkyPilot, dstack, Terraform with the provider of AWS."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from advisor.domain import Market
from advisor.render.exporting import export
from advisor.render.exporting.serving import export_serving
from tests.advisor.render.language_answers import generation_candidate, generation_recommendation
from tests.advisor.render.test_exporting import PROVISIONED, changed

pytestmark = pytest.mark.slow
_SKYPILOT = "import sys, sky; [sky.Task.from_yaml(file) for file in sys.argv[1:]]"
_DSTACK = """
import sys, yaml
from dstack._internal.core.models.configurations import parse_run_configuration
for file in sys.argv[1:]:
    parse_run_configuration(yaml.safe_load(open(file)))
"""


def serving(format):
    return export_serving(generation_candidate(), generation_recommendation().request, format)


def texts(format):
    """Of networks: a disk as it comes, a provisioned one on spot, the instance's own; of a language
    model."""
    ones = (changed(), changed(market=Market.SPOT, **PROVISIONED), changed(local=True))
    return [*(export(one, format) for one in ones), serving(format)]


def files(folder, format, end):
    for number, text in enumerate(texts(format)):
        path = folder / str(number) / f"main.{end}"
        path.parent.mkdir()
        path.write_text(text)
        yield path


def test_docker_compose_takes_the_file():
    """And the check is one: a word that Compose does not know is refused."""
    compose = pytest.importorskip("compose_spec").PyCompose
    text = serving("compose")
    assert compose.from_yaml(text).service_names() == ["replica-0", "replica-1"]
    with pytest.raises(ValueError, match="device_idz"):
        compose.from_yaml(text.replace("device_ids", "device_idz"))


@pytest.mark.parametrize(("tool", "script"), [("skypilot", _SKYPILOT), ("dstack", _DSTACK)])
def test_a_broker_takes_every_file(tool, script, tmp_path):
    """By its own Python: either is in an environment of its own."""
    program = shutil.which({"skypilot": "sky"}.get(tool, tool))
    if program is None:
        pytest.skip(f"no {tool} on the path: pip install {tool} in an environment of its own")
    python = Path(program).with_name("python")
    subprocess.run(
        [python, "-c", script, *files(tmp_path, tool, "yaml")],
        check=True,
        timeout=120,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )


@pytest.mark.timeout(300)
def test_terraform_takes_every_file(tmp_path):
    """Each against the schema of the provider; written as `terraform fmt` writes it."""
    if shutil.which("terraform") is None:
        pytest.skip("no terraform on the path")
    for path in files(tmp_path, "terraform", "tf"):
        folder = path.parent
        if subprocess.run(["terraform", "init", "-input=false"], cwd=folder, check=False).returncode:
            pytest.skip("terraform cannot have the provider of AWS here")
        told = subprocess.run(
            ["terraform", "validate", "-json"], cwd=folder, check=False, capture_output=True
        )
        assert json.loads(told.stdout)["diagnostics"] == []
        subprocess.run(["terraform", "fmt", "-check"], cwd=folder, check=True)
