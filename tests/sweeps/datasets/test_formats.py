"""Every storage format keeps the contract of `SampleSource`."""

import multiprocessing
import pickle
import tarfile
from concurrent.futures import ProcessPoolExecutor

import pytest
from PIL import Image

from advisor.domain import Status, Task
from advisor.errors import DataError, UsageError
from advisor.sweeps.datasets.converting import TARGETS, convert
from advisor.sweeps.datasets.opening import open_dataset, profile_folder, recognise
from advisor.sweeps.datasets.photographs import write_samples
from advisor.sweeps.datasets.source import SampleKind
from advisor.sweeps.datasets.transforming import Change
from advisor.sweeps.executors.process import InlineExecutor
from tests.sweeps.builders import trial_on

FORMATS = {"files": "jpeg-files", "tar": "tar", "lmdb": "lmdb", "recordio": "recordio"}
CONTAINERS = {"tar": "shard-000000.tar", "lmdb": "data.mdb", "recordio": "images.rec"}
BLUE_CORNER = (30, 40, 200)


def to(target, source, folder, **changes):
    quiet = {"processes": 1, "progress": lambda _done, _all: None}
    return convert(source, target, folder, **{"change": Change(), **quiet, **changes})


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for label, indices in (("cats", range(5)), ("dogs", range(5, 12))):
        (folder / label).mkdir()
        write_samples(folder / label, indices, seed=0)
    return folder


@pytest.fixture(scope="module")
def converted(photos, tmp_path_factory):
    place = tmp_path_factory.mktemp("converted")
    for target in TARGETS:
        to(target, photos, place / target)
    return place


def test_targets_are_the_formats():
    assert set(TARGETS) == set(FORMATS)


@pytest.mark.parametrize("target", TARGETS)
class TestSourceContract:
    def test_it_is_recognised_and_has_all_samples_with_their_labels(self, converted, target):
        assert recognise(converted / target) == FORMATS[target]
        source = open_dataset(converted / target)
        assert source.storage_format == FORMATS[target]
        assert [source.read(index).label for index in range(len(source))] == [0] * 5 + [1] * 7

    def test_samples_are_read_in_any_order(self, converted, target):
        source = open_dataset(converted / target)
        forwards = [source.read(index) for index in range(12)]
        assert [source.read(index) for index in reversed(range(12))] == forwards[::-1]

    def test_a_forked_and_a_pickled_source_read_the_same(self, converted, target):
        source = open_dataset(converted / target)
        first = source.read(0)
        assert pickle.loads(pickle.dumps(source)).read(0) == first
        with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
            assert pool.submit(source.read, 0).result() == first

    def test_the_profile_counts_all_stored_bytes(self, converted, target, tmp_path):
        profile = profile_folder(converted / target)
        stored = sum(file.stat().st_size for file in open_dataset(converted / target).files)
        assert profile.storage_format == FORMATS[target]
        assert profile.total_mib * 2**20 == pytest.approx(stored)
        assert profile.samples == 12

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    def test_a_trial_runs_on_it_from_end_to_end(self, converted, target):
        emulated = {"accelerator": "emulated:T4", "emulated_step_seconds": 0.01}
        wanted = trial_on(converted / target, task=Task.INFERENCE, **emulated)
        (row,) = InlineExecutor().execute([wanted])
        assert row.status in (Status.OK, Status.CONTAMINATED), row.reason
        assert row.throughput_samples_per_second > 0


@pytest.mark.parametrize("share", [0.5, 0.0], ids=["cut off", "empty"])
@pytest.mark.parametrize("target", CONTAINERS)
def test_a_container_that_is_cut_off_or_empty_is_told_before_a_trial_begins(
    converted, target, share, tmp_path
):
    content = (converted / target / CONTAINERS[target]).read_bytes()
    (tmp_path / CONTAINERS[target]).write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError if share else (DataError, UsageError), match=CONTAINERS[target]):
        open_dataset(tmp_path)


@pytest.mark.parametrize("target", ["files", "tar", "recordio"])
def test_jpeg_bytes_pass_through_conversion_unchanged(photos, converted, target):
    before, after = open_dataset(photos), open_dataset(converted / target)
    assert [after.read(index) for index in range(12)] == [before.read(i) for i in range(12)]


def test_an_lmdb_holds_decoded_pixels_of_the_size_the_article_tells(converted):
    """240 GB for 1,281,167 images: 201,145 bytes each if a GB is 2**30 bytes."""
    sample = open_dataset(converted / "lmdb").read(0)
    assert (sample.kind, sample.height, sample.width) == (SampleKind.PIXELS, 256, 256)
    assert len(sample.content) == 196_608


def test_pixels_keep_their_colours_through_an_lmdb_and_back(tmp_path):
    (tmp_path / "in").mkdir()
    Image.new("RGB", (300, 260), BLUE_CORNER).save(tmp_path / "in" / "one.jpg", quality=100)
    to("lmdb", tmp_path / "in", tmp_path / "lmdb")
    to("files", tmp_path / "lmdb", tmp_path / "out")
    (name,) = open_dataset(tmp_path / "out").files
    with Image.open(name) as image:
        assert image.getpixel((0, 0)) == pytest.approx(BLUE_CORNER, abs=3)
        assert image.size == (256, 256)


def test_a_resize_shortens_the_shorter_edge(photos, tmp_path):
    done = to("tar", photos, tmp_path / "small", change=Change(shorter_edge=64))
    assert min(done.profile.width, done.profile.height) == 64
    assert done.profile.bytes_per_sample < profile_folder(photos).bytes_per_sample / 4
    assert done.samples_per_second > 0


def test_side_processes_give_the_same_set_in_the_same_order(photos, converted, tmp_path):
    to("lmdb", photos, tmp_path / "lmdb", processes=2)
    ours, theirs = open_dataset(tmp_path / "lmdb"), open_dataset(converted / "lmdb")
    assert [ours.read(i) for i in range(12)] == [theirs.read(i) for i in range(12)]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("target", TARGETS)
def test_a_conversion_that_is_stopped_leaves_nothing(photos, tmp_path, target, stop):
    def progress(_done, _all):
        raise stop

    expected = KeyboardInterrupt if stop is KeyboardInterrupt else DataError
    with pytest.raises(expected):
        to(target, photos, tmp_path / "set", progress=progress)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", TARGETS)
def test_a_broken_image_is_named_and_nothing_is_left(tmp_path, target):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "broken.jpg").write_bytes(b"no picture")
    with pytest.raises((DataError, UsageError), match=r"broken\.jpg"):
        to(target, tmp_path / "in", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_someone_elses_shards_are_read_without_an_index(photos, tmp_path):
    """WebDataset allows folders in keys, other members between, and no .cls."""
    with tarfile.open(tmp_path / "theirs.tar", "w") as archive:
        for number, file in enumerate(open_dataset(photos).files):
            archive.add(file, f"train/{number}.jpeg")
            archive.add(__file__, f"train/{number}.json")
    source = open_dataset(tmp_path)
    assert len(source) == 12
    assert source.read(7).content == open_dataset(photos).read(7).content


def test_the_headers_of_someone_elses_shard_are_read_once(photos, tmp_path, monkeypatch):
    with tarfile.open(tmp_path / "theirs.tar", "w") as archive:
        for number, file in enumerate(open_dataset(photos).files):
            archive.add(file, f"{number}.jpg")
    first = open_dataset(tmp_path).read(5)
    monkeypatch.setattr(tarfile, "open", None)
    assert open_dataset(tmp_path).read(5) == first
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.tar"]


def test_an_index_that_no_longer_fits_its_shard_is_not_believed(converted, photos, tmp_path):
    for file in (converted / "tar").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with tarfile.open(tmp_path / CONTAINERS["tar"], "w") as archive:
        archive.add(open_dataset(photos).files[3], "only.jpg")
    assert len(open_dataset(tmp_path)) == 1


def test_jpeg_files_come_before_a_tar_file_among_them(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "one.jpg")
    (tmp_path / "backup.tar").write_bytes(b"")
    assert recognise(tmp_path) == "jpeg-files"


def test_text_is_no_image_set(tmp_path):
    (tmp_path / "words.txt").write_text("some words")
    with pytest.raises(UsageError, match="needs images"):
        open_dataset(tmp_path)
