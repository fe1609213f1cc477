import importlib.util
import io

import numpy as np
import pytest
from PIL import Image

from advisor.errors import DataError, MeasuringError, UsageError
from advisor.sweeps.datasets import decoding
from advisor.sweeps.datasets.decoding import DECODERS, decode_costs, decoder
from advisor.sweeps.datasets.opening import open_dataset
from advisor.sweeps.datasets.photographs import write_samples


def jpeg(colour=(30, 40, 200), size=(50, 20)):
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "JPEG", quality=100)
    return buffer.getvalue()


def available(name):
    package = "PIL" if name == "pillow" else name
    return importlib.util.find_spec(package) is not None


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_agree_on_shape_and_order_of_colours(name):
    if not available(name):
        pytest.skip(f"no {name} here")
    pixels = decoder(name)(jpeg())
    assert (pixels.shape, pixels.dtype) == ((20, 50, 3), np.uint8)
    assert pixels[10, 25].tolist() == pytest.approx([30, 40, 200], abs=3)


def test_a_missing_decoder_names_the_way_out(monkeypatch):
    monkeypatch.setattr(decoding, "_installed", lambda _package: False)
    with pytest.raises(MeasuringError, match="pip install"):
        decoder("simplejpeg")


def test_an_unknown_decoder_names_the_known_ones():
    with pytest.raises(UsageError, match="pillow"):
        decoder("pilow")


def test_costs_are_told_for_each_decoder_at_hand(tmp_path):
    write_samples(tmp_path, range(2), seed=0)
    costs = decode_costs(open_dataset(tmp_path))
    assert set(costs) == {name for name in DECODERS if available(name)}
    assert min(costs.values()) > 0


@pytest.mark.parametrize("name", DECODERS)
def test_the_pipeline_decodes_with_each_and_names_what_it_cannot(tmp_path, name):
    if not available(name):
        pytest.skip(f"no {name} here")
    from advisor.sweeps.worker.pipeline.loading import Images

    (tmp_path / "0.jpg").write_bytes(jpeg(size=(300, 200)))
    (tmp_path / "1.jpg").write_bytes(b"\xff\xd8 no picture")
    images = Images(open_dataset(tmp_path), 32, name)
    assert tuple(images[0][0].shape) == (3, 32, 32)
    with pytest.raises(DataError, match=r"1\.jpg"):
        images[1]
