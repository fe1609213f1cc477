"""Every storage format keeps the contract of `SampleSource`."""

import io
import math
import multiprocessing
import pickle
import struct
import tarfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from advisor.domain import Status, Task
from advisor.errors import DataError, UsageError
from advisor.sweeps.datasets import containers
from advisor.sweeps.datasets.converting import TARGETS, convert
from advisor.sweeps.datasets.lmdb_images import datum, sample_of
from advisor.sweeps.datasets.making import write_samples
from advisor.sweeps.datasets.opening import open_dataset, profile_folder, recognise
from advisor.sweeps.datasets.source import Sample, SampleKind
from advisor.sweeps.datasets.transforming import Change
from advisor.sweeps.run.runner import InlineExecutor
from tests.sweeps.builders import trial_on
from tests.sweeps.datasets.test_datasets import picture

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
    folder = tmp_path_factory.mktemp("converted")
    for target in TARGETS:
        to(target, photos, folder / target)
    return folder


@pytest.mark.parametrize("target", TARGETS)
class TestSourceContract:
    def test_it_is_recognised_and_has_all_samples_in_any_order_and_a_profile_of_all_stored_bytes(
        self, converted, target, tmp_path
    ):
        assert recognise(converted / target) == FORMATS[target]
        source = open_dataset(converted / target)
        assert source.storage_format == FORMATS[target]
        assert [source.read(index).label for index in range(len(source))] == [0] * 5 + [1] * 7
        source = open_dataset(converted / target)
        forwards = [source.read(index) for index in range(12)]
        assert [source.read(index) for index in reversed(range(12))] == forwards[::-1]
        profile = profile_folder(converted / target)
        stored = sum(file.stat().st_size for file in source.files)
        assert (profile.storage_format, profile.samples) == (FORMATS[target], 12)
        assert profile.total_mib * 2**20 == pytest.approx(stored)

    def test_a_forked_and_a_pickled_source_read_the_same(self, converted, target):
        source = open_dataset(converted / target)
        first = source.read(0)
        assert pickle.loads(pickle.dumps(source)).read(0) == first
        with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
            assert pool.submit(source.read, 0).result() == first

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


def test_an_lmdb_holds_decoded_pixels_of_the_size_the_article_tells_and_keeps_their_colours(
    converted, tmp_path
):
    """240 GB for 1,281,167 images: 201,145 bytes each if a GB is 2**30 bytes."""
    sample = open_dataset(converted / "lmdb").read(0)
    assert (sample.kind, sample.height, sample.width) == (SampleKind.PIXELS, 256, 256)
    assert len(sample.content) == 196_608
    (tmp_path / "in").mkdir()
    Image.new("RGB", (300, 260), BLUE_CORNER).save(tmp_path / "in" / "one.jpg", quality=100)
    to("lmdb", tmp_path / "in", tmp_path / "lmdb")
    to("files", tmp_path / "lmdb", tmp_path / "out")
    (name,) = open_dataset(tmp_path / "out").files
    with Image.open(name) as image:
        assert image.getpixel((0, 0)) == pytest.approx(BLUE_CORNER, abs=3)
        assert image.size == (256, 256)


def test_a_resize_shortens_the_shorter_edge_and_side_processes_keep_the_order(photos, tmp_path, converted):
    done = to("tar", photos, tmp_path / "small", change=Change(shorter_edge=64))
    assert min(done.profile.width, done.profile.height) == 64
    assert done.profile.bytes_per_sample < profile_folder(photos).bytes_per_sample / 4
    assert done.samples_per_second > 0
    to("lmdb", photos, tmp_path / "lmdb", processes=2)
    ours, theirs = open_dataset(tmp_path / "lmdb"), open_dataset(converted / "lmdb")
    assert [ours.read(i) for i in range(12)] == [theirs.read(i) for i in range(12)]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("target", TARGETS)
def test_a_conversion_that_is_stopped_leaves_nothing(photos, tmp_path, target, stop):
    with pytest.raises(KeyboardInterrupt if stop is KeyboardInterrupt else DataError):
        to(target, photos, tmp_path / "set", progress=Mock(side_effect=stop))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", TARGETS)
def test_a_broken_image_is_named_and_nothing_is_left(tmp_path, target):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "broken.jpg").write_bytes(b"no picture")
    with pytest.raises((DataError, UsageError), match=r"broken\.jpg"):
        to(target, tmp_path / "in", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_someone_elses_shards_are_read_without_an_index(photos, tmp_path, monkeypatch):
    """WebDataset allows folders in keys, other members between, and no .cls."""
    with tarfile.open(tmp_path / "theirs.tar", "w") as archive:
        for number, file in enumerate(open_dataset(photos).files):
            archive.add(file, f"train/{number}.jpeg")
            archive.add(__file__, f"train/{number}.json")
    source = open_dataset(tmp_path)
    assert len(source) == 12
    assert source.read(7).content == open_dataset(photos).read(7).content
    monkeypatch.setattr(tarfile, "open", None)  # its headers are read once
    assert open_dataset(tmp_path).read(7) == source.read(7)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.tar"]
    picture(tmp_path / "one.jpg")
    assert recognise(tmp_path) == "jpeg-files"  # they come before a tar file among them


def test_an_index_that_no_longer_fits_its_shard_is_not_believed(converted, photos, tmp_path):
    (tmp_path / CONTAINERS["tar"]).write_bytes((converted / "tar" / CONTAINERS["tar"]).read_bytes())
    assert len(open_dataset(tmp_path)) == 12
    with tarfile.open(tmp_path / CONTAINERS["tar"], "w") as archive:
        archive.add(open_dataset(photos).files[3], "only.jpg")
    assert len(open_dataset(tmp_path)) == 1


MAGIC_BYTES = bytes.fromhex("0a23d7ce")
contents = st.lists(st.one_of(st.binary(max_size=9), st.just(MAGIC_BYTES))).map(b"".join)


@given(contents)
def test_a_record_comes_back_in_multiples_of_4_bytes_and_its_magic_begins_parts_and_stands_nowhere_else(
    content,
):
    """So that a reader finds its way from any place."""
    record = containers.frame(content)
    assert len(record) % 4 == 0
    assert containers.unframe(record + b"next") == content
    record = containers.frame(content)
    offsets = [number for number in range(0, len(record), 4) if record[number : number + 4] == MAGIC_BYTES]
    index = 0
    for offset in offsets:
        assert offset == index
        (word,) = struct.unpack_from("<I", record, index + 4)
        index += 8 + -(-(word & 0x1FFFFFFF) // 4) * 4
    assert index == len(record)


@given(st.lists(contents))
def test_records_are_found_without_an_index(parts):
    file = b"".join(map(containers.frame, parts))
    result = list(containers.spans(io.BytesIO(file), len(file)))
    assert [containers.unframe(file[offset : offset + size]) for offset, size in result] == parts


def test_records_and_datums_have_the_bytes_of_their_specifications():
    """dmlc-core: magic, length word, content, zeros; a magic inside splits into parts 1 and 3."""
    assert containers.MAGIC == 0xCED7230A
    assert containers.frame(b"hello") == MAGIC_BYTES + bytes([5, 0, 0, 0]) + b"hello\0\0\0"
    first = MAGIC_BYTES + bytes([4, 0, 0, 1 << 5]) + b"abcd"
    last = MAGIC_BYTES + bytes([2, 0, 0, 3 << 5]) + b"ef\0\0"
    assert containers.frame(b"abcd" + MAGIC_BYTES + b"ef") == first + last
    assert containers.frame(b"a" + MAGIC_BYTES)[4:8] == bytes([5, 0, 0, 0])
    header = struct.pack("<IfQQ", 0, 7.0, 3, 0)
    assert containers.pack_image(b"jpeg", 7, 3) == header + b"jpeg"
    assert containers.unpack_image(header + b"jpeg") == (b"jpeg", 7)
    several = struct.pack("<IfQQ2f", 2, 0.0, 3, 0, 5.0, 6.0)
    assert containers.unpack_image(several + b"jpeg") == (b"jpeg", 5)
    # Fields 1, 2, 3 and 5 as varints, field 4 as bytes.
    message = datum(Sample(SampleKind.PIXELS, b"BGR" * 128, 300, 1, 128))
    assert message == b"\x08\x03\x10\x01\x18\x80\x01\x22\x80\x03" + b"BGR" * 128 + b"\x28\xac\x02"
    assert sample_of(b"\x22\x04jpeg\x28\x07\x38\x01") == Sample(SampleKind.JPEG, b"jpeg", 7)


@pytest.mark.parametrize("label", [math.inf, -math.inf, math.nan])
def test_a_record_with_no_number_for_a_label_is_damaged(label):
    with pytest.raises(DataError, match="header is damaged"):
        containers.unpack_image(struct.pack("<IfQQ", 0, label, 3, 0) + b"jpeg")


def test_a_label_of_more_digits_than_any_class_has_counts_as_none(tmp_path):
    with tarfile.open(tmp_path / "theirs.tar", "w") as archive:
        for name, content in (("a.jpg", b"jpeg"), ("a.cls", b"9" * 20)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    assert containers.TarShards.scan(tmp_path / "theirs.tar")[:, 2].tolist() == [0]


@pytest.mark.parametrize("damage", [b"", b"\0" * 12, containers.frame(b"whole")[:-4]])
def test_what_is_no_whole_record_is_told(damage):
    with pytest.raises(DataError):
        containers.unframe(damage)


@given(st.binary(max_size=40))
def test_no_bytes_are_taken_for_a_datum_by_force(message):
    with suppress(DataError):
        sample_of(message)
