"""A job's document, the archive of the software, and objects of a bucket: written once, found again."""

import io
import os
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import DataError
from advisor.infra.aws.asking import Clock
from advisor.infra.aws.errors import Refused
from advisor.infra.aws.guest import software
from advisor.infra.aws.guest.job import Job, job_from_json, job_to_json, place_of
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.infra.aws.guest.software import packed_software, requirements
from advisor.infra.aws.guest.volumes import HUB_TOKEN, engine_environment, installed_engine
from tests.infra.aws.reaping import aws, moto_account
from tests.rows import table

BUCKET = "advisor-test"


@pytest.fixture
def bucket(monkeypatch):
    with moto_account(monkeypatch):
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
        yield BUCKET


def result_bucket(bucket, faults=None, prefix="sweeps/s1"):
    return ResultBucket(aws({"us-east-1": faults or {}}), "us-east-1", bucket, prefix)


def test_an_object_is_written_once_and_found_beneath_its_folder_and_prefix_alone(bucket):
    box = result_bucket(bucket)
    assert box.put_once("a/1", b"first")
    assert not box.put_once("a/1", b"second")
    assert box.get("a/1") == b"first"
    box.put("a/1", b"third")
    assert box.get("a/1") == b"third"
    assert box.get("job.json") is None
    result_bucket(bucket, prefix="sweeps/s10").put("a/9", b"")
    box = result_bucket(bucket)
    for key in ("a/2", "a/1", "b/1"):
        box.put(key, b"")
    assert list(box.keys("a/")) == ["a/1", "a/2"]
    assert list(box.keys()) == ["a/1", "a/2", "b/1"]


@pytest.mark.slow
def test_many_names_come_in_pages(bucket, monkeypatch):
    box = result_bucket(bucket)
    names = [f"a/{number:04}" for number in range(1_005)]
    s3 = boto3.client("s3", region_name="us-east-1")
    for name in names:
        s3.put_object(Bucket=bucket, Key=f"sweeps/s1/{name}", Body=b"")
    assert list(box.keys("a/")) == names


def test_two_writers_at_one_moment_are_told_apart_by_asking_again(bucket):
    faults = {"put_object": ["ConditionalRequestConflict", "SlowDown"]}
    assert result_bucket(bucket, faults).put_once("a/1", b"x")
    with pytest.raises(Refused, match="AccessDenied"):
        result_bucket(bucket, {"put_object": "AccessDenied"}).put_once("a/2", b"x")


# An engine in an environment of its own, and the token for gated models.

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
        without = engine_environment(Path("/engine/bin"), aws(None, Clock()), REGION)
        boto3.client("ssm", region_name=REGION).put_parameter(
            Name=HUB_TOKEN, Value="hf_x", Type="SecureString"
        )
        result = engine_environment(Path("/engine/bin"), aws(None, Clock()), REGION)
    assert without["PATH"].startswith("/engine/bin:")
    assert "HF_TOKEN" not in without
    assert result["HF_TOKEN"] == "hf_x"


CASES = table("infra_cases")

ROOT = Path(__file__).resolve().parents[4]
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
jobs = st.builds(
    Job,
    sweep_id=names,
    region=st.sampled_from(["us-east-1", "eu-west-1"]),
    bucket=st.just("advisor-test"),
    prefix=names.map("sweeps/{}".format).filter(lambda text: ".." not in text),
    arguments=st.lists(st.text(), max_size=4).map(tuple),
    disks=st.dictionaries(
        st.sampled_from(["/dev/sdf", "/dev/sdg", "/dev/xvdh"]), st.sampled_from(["gp3", "st1"])
    ),
    database_parameter=st.sampled_from(["", "/advisor/database"]),
    engine=st.sampled_from(["", "vllm", "vllm[runai]==0.18.*"]),
)


@given(jobs)
def test_a_job_comes_back_from_its_document_and_its_address_names_its_place(job):
    assert job_from_json(job_to_json(job)) == job
    assert place_of(job.url) == (job.bucket, job.key)


NO_JOBS = ("", "[]", "{}", '{"schema": "advisor.guest-job/2"}', "\x00")
NO_PLACES = ("", "s3://", "s3://b/", "http://b-1/key", "s3://UPPER/key")


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        *((job_from_json, text, "no job of an instance") for text in NO_JOBS),
        *((place_of, url, "s3://bucket/key") for url in NO_PLACES),
    ],
)
def test_what_is_no_job_or_names_no_object_is_told(read, text, words):
    with pytest.raises(DataError, match=words):
        read(text)


@pytest.mark.parametrize("changes", CASES["names_that_reach_elsewhere_are_refused"])
def test_names_that_reach_elsewhere_are_refused(changes):
    usual = {"sweep_id": "s1", "region": "us-east-1", "bucket": "b-1", "prefix": "sweeps/s1"}
    with pytest.raises(DataError):
        Job(**{**usual, "arguments": (), **changes})


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    for name in (
        "advisor/__main__.py",
        "advisor/data/x.csv",
        "sweeps/runner.py",
        "advisor/__pycache__/x.pyc",
        "infra/sources/big.csv",
        "other/file",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    for room in ("infra", "sweeps"):
        (tmp_path / "advisor" / room).symlink_to(f"../{room}")
    return tmp_path


def packed(root):
    with tarfile.open(fileobj=io.BytesIO(packed_software(root).content)) as archive:
        return {name: archive.extractfile(name).read() for name in archive.getnames()}


def test_the_same_files_give_the_same_archive_of_the_packages_with_their_data_alone(root):
    first = packed_software(root)
    (root / "sweeps/runner.py").touch()
    assert packed_software(root) == first
    (root / "sweeps/runner.py").write_text("changed")
    assert packed_software(root).key != first.key
    ours = {"advisor/__main__.py", "advisor/data/x.csv", "advisor/sweeps/runner.py"}
    assert set(packed(root)) == ours | {"requirements.txt", "constraints.txt"}


def test_the_instance_gets_the_versions_that_run_here_and_none_of_a_build_for_this_machine(root):
    """pip finds no `2.13.0+cpu` where an instance looks, and would end it before it measures."""
    files = {name: content.decode().split() for name, content in packed(root).items()}
    assert {f"{name}=={metadata.version(name)}" for name in ("boto3", "msgspec")} <= {
        *files["constraints.txt"]
    }
    assert not any("+" in line or line.startswith("instance-") for line in files["constraints.txt"])
    assert any(line.startswith("torch") for line in files["requirements.txt"])
    assert not any(line.startswith("pytest") for line in files["requirements.txt"])
    assert any(line.startswith("psycopg[binary]") for line in files["requirements.txt"])


def test_what_is_installed_says_itself_what_it_needs_and_where_nothing_is_that_is_told(tmp_path, monkeypatch):
    expected = ["boto3>=1.40", 'torch==2.13.0; extra == "sweep"', 'pytest>=9; extra == "dev"']
    monkeypatch.setattr(software.metadata, "requires", lambda _: expected)
    request = requirements(tmp_path, frozenset({"sweep"}))
    assert request.split() == ["boto3>=1.40", "torch==2.13.0"]

    def none(name):
        raise software.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(software.metadata, "requires", none)
    with pytest.raises(DataError, match="pip install"):
        packed_software(tmp_path)
