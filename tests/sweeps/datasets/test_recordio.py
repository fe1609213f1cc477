import io
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import DataError
from advisor.sweeps.datasets.lmdb_images import datum, sample_of
from advisor.sweeps.datasets.recordio import (
    MAGIC,
    RecordIoImages,
    frame,
    pack_image,
    spans,
    unframe,
    unpack_image,
)
from advisor.sweeps.datasets.source import Sample, SampleKind

MAGIC_BYTES = bytes.fromhex("0a23d7ce")
contents = st.lists(st.one_of(st.binary(max_size=9), st.just(MAGIC_BYTES))).map(b"".join)


@given(contents)
def test_a_record_comes_back_and_takes_a_multiple_of_4_bytes(content):
    record = frame(content)
    assert len(record) % 4 == 0
    assert unframe(record + b"next") == content


@given(contents)
def test_the_magic_begins_parts_and_stands_nowhere_else(content):
    """So that a reader finds its way from any place."""
    record = frame(content)
    offsets = [at for at in range(0, len(record), 4) if record[at : at + 4] == MAGIC_BYTES]
    at = 0
    for offset in offsets:
        assert offset == at
        (word,) = struct.unpack_from("<I", record, at + 4)
        at += 8 + -(-(word & 0x1FFFFFFF) // 4) * 4
    assert at == len(record)


@given(st.lists(contents))
def test_records_are_found_without_an_index(parts):
    file = b"".join(map(frame, parts))
    found = list(spans(io.BytesIO(file), len(file)))
    assert [unframe(file[offset : offset + size]) for offset, size in found] == parts


def test_the_bytes_are_those_of_the_specification():
    """dmlc-core: magic, length word, content, zeros; a magic inside splits into parts 1 and 3."""
    assert MAGIC == 0xCED7230A
    assert frame(b"hello") == MAGIC_BYTES + bytes([5, 0, 0, 0]) + b"hello\0\0\0"
    first = MAGIC_BYTES + bytes([4, 0, 0, 1 << 5]) + b"abcd"
    last = MAGIC_BYTES + bytes([2, 0, 0, 3 << 5]) + b"ef\0\0"
    assert frame(b"abcd" + MAGIC_BYTES + b"ef") == first + last
    assert frame(b"a" + MAGIC_BYTES)[4:8] == bytes([5, 0, 0, 0])


def test_an_image_header_is_flag_label_and_two_ids():
    header = struct.pack("<IfQQ", 0, 7.0, 3, 0)
    assert pack_image(b"jpeg", 7, 3) == header + b"jpeg"
    assert unpack_image(header + b"jpeg") == (b"jpeg", 7)


def test_of_several_labels_the_first_is_taken():
    several = struct.pack("<IfQQ2f", 2, 0.0, 3, 0, 5.0, 6.0)
    assert unpack_image(several + b"jpeg") == (b"jpeg", 5)


@pytest.mark.parametrize("damage", [b"", b"\0" * 12, frame(b"whole")[:-4]])
def test_what_is_no_whole_record_is_told(damage):
    with pytest.raises(DataError):
        unframe(damage)


def test_an_index_in_any_order_is_used_and_a_wrong_one_is_not(tmp_path):
    records = [frame(pack_image(content, 1, 0)) for content in (b"first", b"second")]
    (tmp_path / "a.rec").write_bytes(b"".join(records))
    for index in (f"1\t{len(records[0])}\n0\t0\n", "0\t99999\n", "nonsense"):
        (tmp_path / "a.idx").write_text(index)
        source = RecordIoImages([tmp_path / "a.rec"])
        assert [source.read(number).content for number in range(2)] == [b"first", b"second"]


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 10**6))
def test_a_datum_comes_back(height, width, label):
    sample = Sample(SampleKind.PIXELS, bytes(3 * height * width), label, height, width)
    assert sample_of(datum(sample)) == sample


def test_a_datum_is_what_protocol_buffers_write():
    """Fields 1, 2, 3 and 5 as varints, field 4 as bytes."""
    message = datum(Sample(SampleKind.PIXELS, b"BGR" * 128, 300, 1, 128))
    assert message == b"\x08\x03\x10\x01\x18\x80\x01\x22\x80\x03" + b"BGR" * 128 + b"\x28\xac\x02"


def test_a_compressed_datum_is_a_jpeg():
    assert sample_of(b"\x22\x04jpeg\x28\x07\x38\x01") == Sample(SampleKind.JPEG, b"jpeg", 7)


@given(st.binary(max_size=40))
def test_no_bytes_are_taken_for_a_datum_by_force(message):
    with suppress(DataError):
        sample_of(message)
