"""Caffe's Datum message (src/caffe/proto/caffe.proto), the value of an LMDB record.

Fields: 1 channels, 2 height, 3 width, 4 data (uint8 planes, blue-green-red), 5 label, 7 encoded
(then `data` is a compressed image). Written as protocol buffers are, in twenty lines, so that
no protobuf package is needed.
"""

from __future__ import annotations

from advisor.errors import DataError
from sweeps.datasets.source import Kind, Sample

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _ENCODED = 1, 2, 3, 4, 5, 7
_VARINT, _BYTES = 0, 2
_SKIPPED = {1: 8, 5: 4}  # wire types of fixed size, in bytes
_PLANES = 3


def datum(sample: Sample) -> bytes:
    """The message for a sample of pixels."""
    numbers = ((_CHANNELS, _PLANES), (_HEIGHT, sample.height), (_WIDTH, sample.width))
    head = b"".join(bytes([field << 3 | _VARINT]) + _varint(value) for field, value in numbers)
    data = bytes([_DATA << 3 | _BYTES]) + _varint(len(sample.content)) + sample.content
    return head + data + bytes([_LABEL << 3 | _VARINT]) + _varint(sample.label)


def sample_of(message: bytes) -> Sample:
    """The sample in a message. Raises `DataError` for what is no such message."""
    fields: dict[int, int | bytes] = {}
    offset = 0
    try:
        while offset < len(message):
            field, value, offset = _field(message, offset)
            fields[field] = value
    except IndexError as error:
        raise DataError("the record is cut off") from error
    content, label = fields.get(_DATA, b""), fields.get(_LABEL, 0)
    if not isinstance(content, bytes) or not isinstance(label, int):
        raise DataError("the record is no Datum of Caffe")
    if fields.get(_ENCODED):
        return Sample(Kind.JPEG, content, label)
    height, width = fields.get(_HEIGHT, 0), fields.get(_WIDTH, 0)
    whole = isinstance(height, int) and isinstance(width, int)
    if not whole or not content or len(content) != _PLANES * height * width:  # type: ignore[operator]
        raise DataError("the record is no Datum of Caffe with three planes of pixels")
    return Sample(Kind.PIXELS, content, label, height, width)  # type: ignore[arg-type]


def _field(message: bytes, offset: int) -> tuple[int, int | bytes, int]:
    """(field number, value, where the next one begins)."""
    key, offset = _read_varint(message, offset)
    field, wire = key >> 3, key & 7
    if wire == _VARINT:
        value, offset = _read_varint(message, offset)
        return field, value, offset
    if wire == _BYTES:
        length, offset = _read_varint(message, offset)
    elif wire in _SKIPPED:
        length = _SKIPPED[wire]
    else:
        raise DataError("the record is no Datum of Caffe")
    if offset + length > len(message):
        raise DataError("the record is cut off")
    return field, message[offset : offset + length], offset + length


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _read_varint(message: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[offset]
        value |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return value, offset
        if shift > 63:
            raise DataError("the record is no Datum of Caffe")
