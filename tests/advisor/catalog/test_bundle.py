"""A bundle that is missing, cut short, changed or of another version is refused in one line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.files import DATA_FOLDER, MANIFEST, SCHEMA
from advisor.errors import DataError

FILES = sorted(json.loads((DATA_FOLDER / MANIFEST).read_text())["files"])


@pytest.fixture
def folder(tmp_path):
    for part in ("catalog", "sparecores"):
        shutil.copytree(DATA_FOLDER / part, tmp_path / part)
    return tmp_path


def refused(folder, path):
    """The one line with which the bundle is refused; it names the file and the way out."""
    with pytest.raises(DataError) as caught:
        load_catalog(folder)
    message = str(caught.value)
    assert str(folder / path) in message
    assert "reinstall" in message
    assert "infra.build_catalog" in message
    assert "\n" not in message
    return message


def test_a_copy_of_the_bundle_loads(folder):
    """The folder can be anywhere."""
    assert load_catalog(folder).instance("g4dn.xlarge").vcpus == 4


@pytest.mark.parametrize("path", FILES)
def test_a_flipped_byte_is_noticed(folder, path):
    """In any file, wherever it is."""
    content = bytearray((folder / path).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / path).write_bytes(content)
    assert "changed or cut short" in refused(folder, path)


@pytest.mark.parametrize("path", FILES)
def test_a_file_cut_short_is_noticed(folder, path):
    """Half a table is no table."""
    content = (folder / path).read_bytes()
    (folder / path).write_bytes(content[: len(content) // 2])
    refused(folder, path)


@pytest.mark.parametrize("path", [*FILES, MANIFEST])
def test_a_missing_file_is_noticed(folder, path):
    """The reason of the file system is told."""
    (folder / path).unlink()
    assert "No such file" in refused(folder, path)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "null", '{"schema": "advisor.catalog-bundle/2"}', "\x00\xff"],
)
def test_a_broken_manifest_is_noticed(folder, text):
    """Not JSON, not ours, or of another version."""
    (folder / MANIFEST).write_text(text, encoding="latin-1")
    refused(folder, MANIFEST)


def test_another_version_is_told_apart_from_corruption(folder):
    """A newer bundle with an older program: both versions are named."""
    manifest = json.loads((folder / MANIFEST).read_text()) | {"schema": "advisor.catalog-bundle/9"}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    message = refused(folder, MANIFEST)
    assert "advisor.catalog-bundle/9" in message
    assert SCHEMA in message


@pytest.mark.parametrize("key", ["files", "parts", "clouds", "snapshot"])
def test_an_incomplete_manifest_is_noticed(folder, key):
    """Our version, and something is gone."""
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest[key]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert "incomplete" in refused(folder, MANIFEST)


def test_reading_the_catalogue_needs_the_standard_library_alone():
    """No NumPy, pandas, torch or boto3 comes in with it."""
    heavy = "numpy pandas torch boto3 ray sklearn scipy sqlalchemy rich click"
    code = (
        "import sys; from advisor.catalog import load_catalog; load_catalog().instances(); "
        f"print([m for m in {heavy.split()} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
