"""An engine in an environment of its own, and the token for gated models."""

import os
import zipfile
from pathlib import Path

import boto3
import pytest

from advisor.errors import DataError
from advisor.infra.aws.asking import SystemClock
from advisor.infra.aws.guest.engine import HUB_TOKEN, engine_environment, installed_engine
from tests.infra.aws.clients import moto_account
from tests.infra.aws.reaping import aws

REGION = "us-east-1"
_WHEEL = {
    "tiny.py": "def main(): print('served')",
    "tiny-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n",
    "tiny-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tiny-1.dist-info/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
    "tiny-1.dist-info/RECORD": "",
}


@pytest.mark.slow
def test_an_engine_has_an_environment_of_its_own(tmp_path):
    """Its program is there; and what cannot be had is told by pip's own words."""
    wheel = tmp_path / "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in _WHEEL.items():
            archive.writestr(name, content)
    programs = installed_engine(str(wheel), tmp_path)
    assert os.access(programs / "tiny", os.X_OK)
    with pytest.raises(DataError, match=r"gone\.whl cannot be installed: ERROR"):
        installed_engine(str(tmp_path / "gone.whl"), tmp_path)


def test_gated_models_are_loaded_with_the_accounts_token_where_it_has_one(monkeypatch):
    """And its programs come before those of the instance."""
    with moto_account(monkeypatch):
        without = engine_environment(Path("/engine/bin"), aws(None, SystemClock()), REGION)
        boto3.client("ssm", region_name=REGION).put_parameter(
            Name=HUB_TOKEN, Value="hf_x", Type="SecureString"
        )
        found = engine_environment(Path("/engine/bin"), aws(None, SystemClock()), REGION)
    assert without["PATH"].startswith("/engine/bin:")
    assert "HF_TOKEN" not in without
    assert found["HF_TOKEN"] == "hf_x"
