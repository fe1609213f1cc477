import json

import pytest
from PIL import Image

from advisor.cli.main import run
from advisor.sweeps.datasets.converting import broken_samples
from advisor.sweeps.datasets.decoding import decoder
from advisor.sweeps.datasets.photographs import write_samples


@pytest.fixture
def spoiled(tmp_path):
    """Seventy images, of which four are empty, cut off, no image, and huge."""
    folder = tmp_path / "set"
    folder.mkdir()
    write_samples(folder, range(2), seed=0)
    good = (folder / "0000001.jpg").read_bytes()
    for number in range(2, 70):
        (folder / f"{number:07d}.jpg").write_bytes(good)
    (folder / "0000003.jpg").write_bytes(b"")
    (folder / "0000005.jpg").write_bytes(good[: len(good) // 3])
    (folder / "0000066.jpg").write_bytes(b"<html>404</html>")
    huge(folder / "0000069.jpg")
    return folder


def huge(path):
    """A decompression bomb: 24,000 x 24,000 pixels by its header alone."""
    Image.new("L", (16, 16)).save(path, "JPEG")
    content = bytearray(path.read_bytes())
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = (24_000).to_bytes(2, "big") * 2
    path.write_bytes(content)


def test_every_broken_image_is_named_with_its_reason(spoiled, capsys):
    assert run(["dataset", "check", str(spoiled), "-o", "json"]) == 1
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert document["samples"] == 70
    causes = (
        ("0000003.jpg", "it is empty"),
        ("0000005.jpg", "truncated"),
        ("0000066.jpg", "its format is not known"),
        ("0000069.jpg", "exceeds limit"),
    )
    for line, (name, why) in zip(document["broken"], causes, strict=True):
        assert name in line
        assert why in line
    assert "4 of 70 images" in told.err


def test_a_sound_data_set_has_nothing_to_tell(tmp_path):
    write_samples(tmp_path, range(3), seed=0)
    told = []
    assert broken_samples(tmp_path, 1, lambda *count: told.append(count)) == (3, [])
    assert told == [(3, 3)]


def test_a_huge_image_is_refused_before_memory_is_taken_for_it(tmp_path):
    pytest.importorskip("simplejpeg")
    huge(tmp_path / "bomb.jpg")
    with pytest.raises(ValueError, match="24000 x 24000 pixels"):
        decoder("simplejpeg")((tmp_path / "bomb.jpg").read_bytes())
