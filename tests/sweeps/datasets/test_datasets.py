import random
import statistics

import pytest
from PIL import Image

from advisor.errors import DataError, UsageError
from advisor.sweeps.datasets.jpeg_files import JpegFiles
from advisor.sweeps.datasets.making import ensure_dataset
from advisor.sweeps.datasets.opening import profile_folder
from advisor.sweeps.datasets.photographs import make_sample, write_samples


def picture(path, size=(40, 30)):
    Image.new("RGB", size, "red").save(path)


def test_samples_are_like_imagenet_in_size():
    sizes = [len(make_sample(random.Random(index))) for index in range(60)]
    assert statistics.fmean(sizes) == pytest.approx(110_000, rel=0.15)
    assert max(sizes) > 2 * min(sizes)


def test_samples_depend_on_seed_and_index_alone(tmp_path):
    for name, indices in (("a", range(3)), ("b", range(2, 3))):
        (tmp_path / name).mkdir()
        write_samples(tmp_path / name, indices, seed=7)
    last = "0000002.jpg"
    assert (tmp_path / "a" / last).read_bytes() == (tmp_path / "b" / last).read_bytes()


def test_a_data_set_is_made_once_and_profiled(tmp_path):
    told = []
    folder, profile = ensure_dataset(70, tmp_path / "set", lambda *count: told.append(count))
    files = JpegFiles(folder).files
    assert len(files) == profile.samples == 70
    mean = statistics.fmean(path.stat().st_size for path in files)
    assert profile.bytes_per_sample == pytest.approx(mean)
    assert told[-1] == (70, 70)
    told.clear()
    assert ensure_dataset(70, folder, lambda *count: told.append(count)) == (folder, profile)
    assert told == []
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_place_that_cannot_be_written_is_told_with_the_way_out(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="name another place"):
        ensure_dataset(4, tmp_path / "file" / "set")


def test_a_users_folder_is_profiled(tmp_path):
    (tmp_path / "cats").mkdir()
    picture(tmp_path / "cats" / "one.JPG", (40, 30))
    picture(tmp_path / "two.jpeg", (60, 50))
    (tmp_path / "notes.txt").write_text("not an image")
    profile = profile_folder(tmp_path)
    assert (profile.samples, profile.width, profile.height) == (2, 50, 40)


def test_a_profile_that_no_longer_fits_the_folder_is_not_believed(tmp_path):
    picture(tmp_path / "one.jpg")
    (tmp_path / "profile.json").write_text('{"profile": {"samples": 5}}')
    assert profile_folder(tmp_path).samples == 1


def cut_off(path):
    picture(path, (400, 300))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda file: file.write_bytes(b""), "cannot be read as an image"),
        (lambda file: file.write_bytes(b"no picture"), "repair or remove"),
        (cut_off, r"one\.jpg"),
        (lambda _file: None, "needed"),
    ],
    ids=["empty", "no image", "cut off", "no files"],
)
def test_broken_or_missing_images_are_named(tmp_path, spoil, words):
    (folder := tmp_path / "set").mkdir()
    spoil(folder / "one.jpg")
    with pytest.raises(UsageError, match=words):
        profile_folder(folder)
