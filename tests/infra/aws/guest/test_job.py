"""A job's document and the archive of the software."""

import io
import tarfile
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import DataError
from advisor.infra.aws.guest import software
from advisor.infra.aws.guest.job import Job, job_from_json, job_to_json, place_of
from advisor.infra.aws.guest.software import packed_software, requirements
from tests.rows import table

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
