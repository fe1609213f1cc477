"""How the memory of the network table is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from advisor.infra.build.networks.memory import build, capture, chosen  # noqa: E402
from advisor.infra.build.networks.variants import image_variant  # noqa: E402
from advisor.models.bundled import FOLDER  # noqa: E402
from advisor.models.performance.memory.table import BUNDLED, MemoryTable  # noqa: E402

ALEXNET, RESNET = ("torchvision", "alexnet", "3x224x224"), ("torchvision", "resnet18", "3x224x224")


def table_with(folder: Path, *keys: tuple[str, str, str]) -> Path:
    """A folder with these lines of the network table that ships."""
    head, *lines = (FOLDER / "networks.csv").read_text().splitlines()
    starts = [f"{name},{library}," for library, name, _ in keys]
    kept = [
        line for line in lines if any(line.startswith(one) for one in starts) and f",{keys[0][2]}," in line
    ]
    (folder / "networks.csv").write_text("\n".join([head, *kept]) + "\n")
    return folder


def reserved(table: Path, key: tuple[str, str, str]) -> float:
    """MiB that a training step on 64 images reserves in fp32."""
    return MemoryTable(np.load(table / BUNDLED))[key].steps["training/fp32"][-1].reserved


def test_a_replay_in_the_table_outlives_the_folder_that_it_was_made_in(tmp_path: Path) -> None:
    """Replaying one network more does not cost those that were replayed before."""
    table = table_with(tmp_path, ALEXNET, RESNET)
    assert build(tmp_path / "none", table) == (2, 0)
    derived = reserved(table, RESNET)

    capture([image_variant("torchvision", "resnet18", 224)], tmp_path / "first")
    assert build(tmp_path / "first", table) == (2, 1)
    replayed = reserved(table, RESNET)
    assert replayed == pytest.approx(2330, rel=0.01)
    assert replayed > 1.1 * derived

    capture([image_variant("torchvision", "alexnet", 224)], tmp_path / "second")
    assert build(tmp_path / "second", table) == (2, 2)
    assert reserved(table, RESNET) == replayed


def test_a_network_that_changed_its_size_loses_its_replay(tmp_path: Path) -> None:
    """Another network of the same name is told from its own line."""
    table = table_with(tmp_path, RESNET)
    build(tmp_path / "none", table)
    derived = reserved(table, RESNET)
    capture([image_variant("torchvision", "resnet18", 224)], tmp_path / "replays")
    build(tmp_path / "replays", table)

    lines = table / "networks.csv"
    lines.write_text(lines.read_text().replace(",44.629,", ",50,"))
    assert build(tmp_path / "none", table) == (1, 0)
    assert reserved(table, RESNET) < 1.1 * derived


def test_networks_are_replayed_in_the_order_they_are_asked_for() -> None:
    """What is wanted first comes first, and once."""
    variants = [image_variant("timm", name, 224) for name in ("vit_a", "resnet_b", "vit_c")]
    found = chosen(variants, ["timm/resnet*", "*"])
    assert [one.name for one in found] == ["resnet_b", "vit_a", "vit_c"]
