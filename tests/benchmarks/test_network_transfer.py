"""The suite of networks never measured, on a small made-up directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy import network_transfer
from benchmarks.accuracy.data_sheets import find_sheet, read_data_sheets
from benchmarks.accuracy.figures import NothingToScore
from benchmarks.accuracy.network_families import family
from benchmarks.accuracy.network_rows import read_rows

SHEETS = (
    "gpu,vendor,architecture,compute_capability,sms,memory_gb,memory_bandwidth_gb_s,fp32_tflops,"
    "tf32_dense_tflops,fp16_dense_tflops,bf16_dense_tflops\n"
    "RTX 3090,NVIDIA,Ampere,8.6,82,24,936,35.6,35.6,71,71\n"
    "RTX 4090,NVIDIA,Ada,8.9,128,24,1008,82.6,82.6,165,165\n"
)
NETWORKS = (
    "resnet18", "resnet50", "resnet101", "vgg16", "vgg19", "densenet121", "densenet169",
    "convnext_tiny", "convnext_base", "efficientnet_b0",
)  # fmt: skip


def write_directory(folder: Path, networks: tuple[str, ...] = NETWORKS, extra: str = "") -> Path:
    """timm files of two GPUs, whose rates follow the FLOPs with some noise."""
    (folder / "catalog").mkdir(parents=True)
    (folder / "catalog/gpu_specs.csv").write_text(SHEETS)
    (folder / "perfmodel/timm").mkdir(parents=True)
    for gpu, speed in (("rtx3090", 1.0), ("rtx4090", 2.0)):
        lines = ["model,infer_img_size,infer_batch_size,infer_samples_per_sec,infer_gmacs"]
        for number, name in enumerate(networks):
            rate = speed * (5000 - 400 * number)
            lines.append(f"{name}.tag_in1k,224,256,{rate},")
        path = folder / f"perfmodel/timm/benchmark-infer-amp-nchw-pt240-cu124-{gpu}.csv"
        path.write_text("\n".join(lines) + "\n" + extra)
    return folder


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet50.a1_in1k", "resnet"),
        ("seresnext26t_32x4d", "resnet"),
        ("wide_resnet50_2", "resnet"),
        ("tf_efficientnetv2_s", "efficientnet"),
        ("convnextv2_tiny", "convnext"),
        ("vit_base_patch16_224", "vit"),
        ("vgg16_bn", "vgg"),
    ],
)
def test_families_are_read_from_names(name: str, expected: str) -> None:
    """Versions, sizes, weights and their trainers make no family of their own."""
    assert family(name) == expected


def test_gpus_are_found_by_the_names_that_sources_give_them(tmp_path: Path) -> None:
    """A sheet is found by its number; what is not there is not guessed."""
    sheets = read_data_sheets(write_directory(tmp_path))
    found = [find_sheet(name, sheets) for name in ("4090", "GeForce RTX 3090", "NVIDIA RTX 4090")]
    assert [sheet and sheet.gpu.name for sheet in found] == ["RTX 4090", "RTX 3090", "RTX 4090"]
    assert find_sheet("rtx5090", sheets) is None


def test_rows_without_a_rate_are_said(tmp_path: Path) -> None:
    """Empty, negative and non-numeric rates are counted, not fitted."""
    extra = "resnet34,224,256,,\nresnet26,224,256,-3,\nresnet14t,224,256,nan,\n"
    rows, said = read_rows(write_directory(tmp_path, extra=extra))
    assert len(rows) == 2 * len(NETWORKS)
    assert any(text.endswith(": 3 rows") for text in said)
    assert any("torchvision" in text for text in said)


@pytest.mark.slow
def test_both_kinds_of_split_give_figures(tmp_path: Path) -> None:
    """Family out with one directory, and networks of another directory, without its own rows."""
    train = write_directory(tmp_path / "train")
    score = write_directory(tmp_path / "score", ("vgg16", "resnet50", "no_such_network"))
    for folder, scored in ((train, 20), (score, 4)):
        result = network_transfer.run(train, folder)
        assert result.main.n == scored
        assert np.isfinite(result.main.mape_percent)
        assert {one.name for one in result.variants} == {
            "timm, inference, no probe",
            "timm, inference, one probe",
            "timm, inference, one probe, same software",
        }
    assert any("no_such_network" in text for text in result.skipped)


def test_nothing_to_score_is_said(tmp_path: Path) -> None:
    """Without data sheets, and without rows, the reason is told."""
    with pytest.raises(NothingToScore, match="gpu_specs"):
        network_transfer.run(tmp_path, tmp_path)
    train = write_directory(tmp_path / "empty", ())
    with pytest.raises(NothingToScore, match="could be predicted"):
        network_transfer.run(train, train)
