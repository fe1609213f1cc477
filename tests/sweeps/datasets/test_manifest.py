"""A folder's images are found once, and again only when the folder has changed."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import DataError
from advisor.files import manifests_folder
from advisor.sweeps.datasets.opening import profile_folder
from advisor.sweeps.datasets.source import kept_manifest, manifest_of
from tests.sweeps.datasets.test_datasets import picture

JPEG = frozenset({".jpg", ".jpeg"})
# Of files; "a.jpg" beneath "a" sorts otherwise than as one text.
NAMES = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=20
).filter(lambda name: name not in (".", ".."))


def settle(folder: Path) -> None:
    """As if nothing had changed in the folder for a minute."""
    for position in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        when = position.stat().st_mtime_ns - 60 * 10**9
        os.utime(position, ns=(when, when))


@pytest.fixture
def images(tmp_path):
    for kind, name in (("cats", "b.jpg"), ("cats", "a.JPEG"), ("ants", "c.jpg")):
        (tmp_path / "images" / kind).mkdir(parents=True, exist_ok=True)
        picture(tmp_path / "images" / kind / name)
    (tmp_path / "images" / "notes.txt").write_text("no image")
    settle(tmp_path / "images")
    return tmp_path / "images"


def test_images_with_their_classes_and_their_profile_are_found_in_a_fixed_order_and_kept(images, monkeypatch):
    manifest = manifest_of(images, JPEG)
    assert [str(path.relative_to(images)) for path in manifest] == ["ants/c.jpg", "cats/a.JPEG", "cats/b.jpg"]
    assert [manifest.label(index) for index in range(3)] == [0, 1, 1]
    assert manifest.total_bytes == sum(path.stat().st_size for path in manifest)
    assert manifest[-1] == manifest[2]
    profile = profile_folder(images)
    monkeypatch.setattr("advisor.sweeps.datasets.opening.picture", None)
    assert profile_folder(images) == profile
    listed = list(manifest_of(images, JPEG))
    monkeypatch.setattr(os, "walk", None)
    assert list(manifest_of(images, JPEG)) == listed


@pytest.mark.parametrize(
    "change",
    [
        lambda images: picture(images / "ants" / "new.jpg"),
        lambda images: (images / "cats" / "a.JPEG").unlink(),
        lambda images: (images / "cats" / "a.JPEG").rename(images / "cats" / "z.jpg"),
        lambda images: (images / "cats").rename(images / "dogs"),
    ],
    ids=["added", "removed", "renamed", "folder"],
)
def test_a_folder_that_changed_is_searched_again(images, change):
    manifest_of(images, JPEG)
    change(images)
    assert kept_manifest(images) is None
    assert set(manifest_of(images, JPEG)) == {
        p for p in images.rglob("*") if p.suffix != ".txt" and p.is_file()
    }


def test_a_folder_that_changed_a_moment_ago_is_not_kept(tmp_path):
    """Within one tick of the file system's clock another change would go unseen."""
    picture(tmp_path / "one.jpg")
    manifest_of(tmp_path, JPEG)
    assert kept_manifest(tmp_path) is None


def in_the_way(kept):
    shutil.rmtree(kept)
    kept.write_text("in the way")


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: (kept / "rows.npy").write_bytes((kept / "rows.npy").read_bytes()[:-1]),
        lambda kept: (kept / "rows.npy").unlink(),
        lambda kept: (kept / "about.json").write_text("[]"),
        in_the_way,
    ],
    ids=["cut", "gone", "nonsense", "not writable"],
)
def test_a_damaged_cache_costs_a_search_and_nothing_else(images, damage):
    listed = list(manifest_of(images, JPEG))
    (kept,) = manifests_folder().iterdir()
    damage(kept)
    assert list(manifest_of(images, JPEG)) == listed


@given(names=st.sets(NAMES, min_size=1, max_size=8))
def test_any_file_name_comes_back_as_it_is(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("named")
    for name in names:
        (folder / f"{name}.jpg").write_bytes(name.encode())
    assert {path.name for path in manifest_of(folder, JPEG)} == {f"{name}.jpg" for name in names}


def test_a_folder_that_cannot_be_listed_is_never_left_out_and_what_a_file_system_keeps_is(
    images, monkeypatch
):
    """A list without it would be short, and kept. Listing fails once, as on a network's disk."""
    scandir = os.scandir

    def failing(path):
        if str(path).endswith("cats"):
            raise OSError(errno.EIO, "Input/output error", path)
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", failing)
        with pytest.raises(DataError, match=r"cats' \(Input/output error\)"):
            manifest_of(images, JPEG)
    assert len(manifest_of(images, JPEG)) == 3
    (images / "lost+found").mkdir()
    picture(images / "lost+found" / "#12.jpg")
    assert len(manifest_of(images, JPEG)) == 3
