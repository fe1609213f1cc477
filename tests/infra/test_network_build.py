"""How the network table and its memory are made."""

import argparse
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from advisor.domain import Task  # noqa: E402
from advisor.infra.build.networks import memory  # noqa: E402
from advisor.infra.build.networks.__main__ import build  # noqa: E402
from advisor.infra.build.networks.own import Plain  # noqa: E402
from advisor.infra.build.networks.table import capture_all, family_of, result_path  # noqa: E402
from advisor.infra.build.networks.variants import Variant, image_variant  # noqa: E402
from advisor.models.bundled import FOLDER  # noqa: E402
from advisor.models.network_columns import MEMORY_COLUMNS  # noqa: E402
from advisor.models.performance.memory.steps import BUNDLED, MemoryTable  # noqa: E402
from advisor.models.performance.networks import NetworkTable, bundled_networks  # noqa: E402
from tests.rows import table  # noqa: E402

CASES = table("infra_cases")


def arguments_of(folder: Path, **options: object) -> argparse.Namespace:
    defaults = {
        "only": None,
        "resume": False,
        "work": folder / "work",
        "folder": folder / "table",
        "processes": 1,
        "seconds": 60.0,
    }
    return argparse.Namespace(**{**defaults, **options})


def small(name: str, width: int = 8, takes: int = 4) -> Variant:
    return Variant(
        library="advisor",
        name=name,
        input="4",
        sample="sample",
        data="tensor",
        subject=lambda: Plain(lambda: torch.nn.Linear(takes, width), ((4,),)),
    )


def broken() -> Variant:
    return small("broken", takes=5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "vit_b_32"])
def test_capturing_again_gives_what_ships(tmp_path: Path, name: str) -> None:
    """The table that ships is what the code beside it makes of the installed libraries."""
    assert build([image_variant("torchvision", name, 224)], arguments_of(tmp_path)) == 0
    made, shipped = NetworkTable(tmp_path / "table").find(name), bundled_networks().find(name)
    for task in (Task.INFERENCE, Task.TRAINING):
        assert np.array_equal(made.kernels[task], shipped.kernels[task])
    for name in MEMORY_COLUMNS:
        # Peaks that ship count the input too where a network takes a view of it, and what fp32
        # saves of any batch a weight: captured before the code told them apart.
        if "peak" not in name and name != "saved_fixed_fp32":
            assert getattr(made.memory, name) == getattr(shipped.memory, name)
    assert made.family == shipped.family


def test_a_network_that_cannot_be_followed_is_named_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One failure does not cost the others, and its reason is told."""
    assert build([broken(), small("fine")], arguments_of(tmp_path)) == 1
    assert NetworkTable(tmp_path / "table").names == ("fine",)
    assert "not in the table: advisor/broken@4: RuntimeError" in capsys.readouterr().err


def test_a_stopped_build_goes_on_where_it_was(tmp_path: Path) -> None:
    """With --resume what was captured is not captured again; what failed is tried again."""
    folder = tmp_path / "work"
    variants = [small("one"), broken()]
    list(capture_all(variants, folder, processes=1, seconds_each=60))
    before = result_path(folder, variants[0].key).stat().st_mtime_ns
    expected = [key for key, _ in capture_all(variants, folder, processes=1, seconds_each=60)]
    assert expected == ["advisor/broken@4"]
    assert result_path(folder, variants[0].key).stat().st_mtime_ns == before


def test_one_network_is_brought_up_to_date_without_the_others(tmp_path: Path) -> None:
    """--only changes the lines that it names; the other lines stay."""
    build([small("one"), small("two")], arguments_of(tmp_path))
    changed = [small("one", 16), small("two", 32)]
    fresh = tmp_path / "fresh"
    build(changed, arguments_of(tmp_path, only="*/one@*", work=fresh))
    table = NetworkTable(tmp_path / "table")
    assert (table.find("one").parameters, table.find("two").parameters) == (80, 40)


@pytest.mark.parametrize(("class_name", "family"), CASES["families_are_architectures"])
def test_families_are_architectures(class_name: str, family: str) -> None:
    """What a network is used for does not part it from its relatives."""
    assert family_of(class_name) == family


ALEXNET, RESNET = ("torchvision", "alexnet", "3x224x224"), ("torchvision", "resnet18", "3x224x224")


def table_with(folder: Path, *keys: tuple[str, str, str]) -> Path:
    """A folder with these lines of the network table that ships."""
    head, *lines = (FOLDER / "networks.csv").read_text().splitlines()
    starts = [f"{name},{library}," for library, name, _ in keys]
    kept = [
        line
        for line in lines
        if any(line.startswith(start) for start in starts) and f",{keys[0][2]}," in line
    ]
    (folder / "networks.csv").write_text("\n".join([head, *kept]) + "\n")
    return folder


def reserved(table: Path, key: tuple[str, str, str]) -> float:
    """MiB that a training step on 64 images reserves in fp32."""
    return MemoryTable(np.load(table / BUNDLED))[key].steps["training/fp32"][-1].reserved


def test_a_replay_in_the_table_outlives_the_folder_that_it_was_made_in(tmp_path: Path) -> None:
    """Replaying one network more does not cost those that were replayed before."""
    table = table_with(tmp_path, ALEXNET, RESNET)
    assert memory.build(tmp_path / "none", table) == (2, 0)
    derived = reserved(table, RESNET)

    memory.capture([image_variant("torchvision", "resnet18", 224)], tmp_path / "first")
    assert memory.build(tmp_path / "first", table) == (2, 1)
    replayed = reserved(table, RESNET)
    assert replayed == pytest.approx(2330, rel=0.01)
    assert replayed > 1.1 * derived

    memory.capture([image_variant("torchvision", "alexnet", 224)], tmp_path / "second")
    assert memory.build(tmp_path / "second", table) == (2, 2)
    assert reserved(table, RESNET) == replayed


def test_a_network_that_changed_its_size_loses_its_replay(tmp_path: Path) -> None:
    """Another network of the same name is told from its own line."""
    table = table_with(tmp_path, RESNET)
    memory.build(tmp_path / "none", table)
    derived = reserved(table, RESNET)
    memory.capture([image_variant("torchvision", "resnet18", 224)], tmp_path / "replays")
    memory.build(tmp_path / "replays", table)

    lines = table / "networks.csv"
    lines.write_text(lines.read_text().replace(",44.629,", ",50,"))
    assert memory.build(tmp_path / "none", table) == (1, 0)
    assert reserved(table, RESNET) < 1.1 * derived


def test_networks_are_replayed_in_the_order_they_are_asked_for() -> None:
    """What is wanted first comes first, and once."""
    variants = [image_variant("timm", name, 224) for name in ("vit_a", "resnet_b", "vit_c")]
    result = memory.chosen(variants, ["timm/resnet*", "*"])
    assert [entry.name for entry in result] == ["resnet_b", "vit_a", "vit_c"]
