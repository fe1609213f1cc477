"""What the table that ships knows of networks, by the names that people use."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time

import numpy as np
import pytest

from advisor.domain import Task
from advisor.errors import UsageError
from advisor.models.performance.network_table import (
    FOLDER,
    KINDS,
    LIBRARIES,
    NETWORKS,
    OPERATIONS,
    Network,
    NetworkTable,
    network_table,
)
from tests.rows import assert_each


def macs(network: Network) -> float:
    """Multiply-accumulates of the forward pass of a sample."""
    return float((network.inference["flops"].astype(float) * network.inference["count"]).sum()) / 2


@pytest.fixture(scope="module")
def table() -> NetworkTable:
    return network_table()


@pytest.mark.parametrize(
    ("name", "gmacs", "parameters"),
    [
        ("resnet50", 4.09, 25_557_032),
        ("torchvision/vit_b_16", 17.56, 86_567_656),
        ("timm/vit_base_patch16_224", 17.56, 86_567_656),
        ("vgg16", 15.47, 138_357_544),
        ("efficientnet_b0", 0.386, 5_288_548),
        ("bert-base-uncased", 11.17, 109_482_240),
        ("yolov5s", 8.22, 7_235_389),
        ("stable-diffusion-1.5", 401.6, 859_520_964),
    ],
)
def test_networks_compute_what_their_papers_say(
    table: NetworkTable, name: str, gmacs: float, parameters: int
) -> None:
    """Multiply-accumulates of a forward pass and parameters are the published ones."""
    network = table.find(name)
    assert macs(network) / 1e9 == pytest.approx(gmacs, rel=0.01)
    assert network.parameters == parameters


def test_a_training_step_computes_three_times_a_forward_pass(table: NetworkTable) -> None:
    """Backward is a product of inputs and one of weights for each of forward."""
    network = table.find("resnet50")
    rows = network.operations(Task.TRAINING)
    flops = (rows["flops"].astype(float) * rows["count"]).sum()
    assert flops / 2 / macs(network) == pytest.approx(3, rel=0.03)
    assert set(rows["backward"]) == {0, 1}


def test_every_network_is_found_by_the_name_it_is_listed_under(table: NetworkTable) -> None:
    """Listed names, and `library/name` of every line, lead to that very network."""
    assert len(table.names) == len(set(table.names)) > 1500
    for name in table.names:
        library, _, bare = name.rpartition("/") if name.split("/")[0] in LIBRARIES else ("", "", name)
        network = table.find(name)
        assert network.name == bare
        assert library in ("", network.library)


def test_networks_are_found_by_what_people_call_them(table: NetworkTable) -> None:
    """Spelling, prefixes and tags of weights do not matter; torchvision wins a bare name."""

    def check(called: str, library: str, name: str) -> None:
        network = table.find(called)
        assert (network.library, network.name) == (library, name)

    assert_each(
        check,
        [
            ("ResNet-50", "torchvision", "resnet50"),
            ("resnet50", "torchvision", "resnet50"),
            ("timm/resnet50", "timm", "resnet50"),
            ("timm/resnet50.a1_in1k", "timm", "resnet50"),
            ("ViT-B/16", "torchvision", "vit_b_16"),
            ("vit_large_patch16_224", "timm", "vit_large_patch16_224"),
            ("google/vit-base-patch16-224", "transformers", "vit-base-patch16-224"),
            ("ViT_Base_Patch16_224", "timm", "vit_base_patch16_224"),
            ("EfficientNet-B0", "torchvision", "efficientnet_b0"),
            ("RegNetX-1.6GF", "torchvision", "regnet_x_1_6gf"),
            ("RegNetX-16GF", "torchvision", "regnet_x_16gf"),
            ("BERT-base-uncased", "transformers", "bert-base-uncased"),
            ("google-bert/bert-large-uncased", "transformers", "bert-large-uncased"),
            ("BERT-base", "advisor", "bert_base"),
            ("distilbert", "transformers", "distilbert-base-uncased"),
            ("openai/whisper-small", "transformers", "whisper-small"),
            ("facebook/detr-resnet-50", "transformers", "detr-resnet-50"),
            ("Mask R-CNN", "torchvision", "maskrcnn_resnet50_fpn"),
            ("Stable Diffusion", "diffusers", "stable-diffusion-1.5"),
            ("DiT-XL/2", "diffusers", "DiT-XL-2"),
            ("YOLOv8", "advisor", "yolov8s"),
            ("gluon_resnet50_v1b", "timm", "resnet50"),
        ],
    )


def test_popular_networks_and_those_of_the_articles_can_be_trained_too(table: NetworkTable) -> None:
    """Twenty popular networks and all of the articles have both steps and their memory."""

    def check(name: str) -> None:
        network = table.find(name)
        assert len(network.operations(Task.INFERENCE))
        assert len(network.operations(Task.TRAINING))
        assert min(network.memory.saved_fp32, network.memory.saved_amp) > 0
        assert network.weights_mib >= network.trained_mib > 0

    assert_each(
        check,
        [
            "resnet18",
            "resnet152",
            "vit_b_16",
            "vit_large_patch16_224",
            "swin_base",
            "convnext_base",
            "efficientnet_b0",
            "efficientnetv2_s",
            "mobilenetv3_large",
            "densenet121",
            "regnety_032",
            "bert-base-uncased",
            "roberta-large",
            "distilbert",
            "t5-base",
            "whisper-small",
            "yolov5s",
            "fasterrcnn_resnet50_fpn",
            "stable-diffusion-1.5",
            "deeplabv3_resnet50",
            "alexnet",
            "googlenet",
            "vgg16",
            "inception_v3",
            "nasnetalarge",
            "cifar10_cnn",
            "yolov3",
            "maskrcnn_resnet50_fpn",
            "deeplabv3_resnet101",
            "lstm_ptb_small",
            "lstm_ptb_medium",
            "lstm_ptb_large",
            "transformer_big",
            "bert_base",
            "bert_base_squad",
        ],
    )


def test_an_unknown_name_is_told_near_ones(table: NetworkTable) -> None:
    """A slip of the pen is answered with what may have been meant."""
    with pytest.raises(UsageError, match="did you mean resnet50"):
        table.find("resnett50")
    assert "resnet50" in table.near("resnett50")


def test_captured_inputs_are_taken_as_they_are(table: NetworkTable) -> None:
    """However an input is written, what was captured is not scaled."""
    for written in ("3x384x384", "384px", "384", "384x384"):
        assert table.find("vit_base_patch16_384", written).scaled == ""
    assert table.find("bert-base-uncased", "seq 384").input == "seq:384"
    for written in ("800x1333", "1333x800", "1333x800 (scale jitter)", "(1333, 800) px"):
        assert table.find("fasterrcnn_resnet50_fpn", written).scaled == ""
    for written in ("4x64x64", "512px latent 64x64", "512px", "64x64"):
        assert table.find("stable-diffusion-1.5", written).input == "4x64x64"


@pytest.mark.parametrize(
    ("name", "near", "far"),
    [
        ("resnet50", "3x224x224", "3x288x288"),
        ("vit_base_patch16_384", "3x224x224", "3x384x384"),
        ("bert-base-uncased", "seq:128", "seq:512"),
        ("gpt2", "seq:512", "seq:1024"),
    ],
)
def test_scaling_agrees_with_capturing(table: NetworkTable, name: str, near: str, far: str) -> None:
    """Work at another size is told within 5 %, memory within 15 %, of what it is captured at."""
    captured = table.find(name, far)
    scaled = table.scaled(table.find(name, near), far)
    assert (scaled.input, scaled.scaled) == (far, near)
    assert macs(scaled) == pytest.approx(macs(captured), rel=0.05)
    assert scaled.memory.saved_fp32 == pytest.approx(captured.memory.saved_fp32, rel=0.15)
    assert scaled.memory.saved_amp == pytest.approx(captured.memory.saved_amp, rel=0.15)


def test_an_input_of_another_kind_is_refused(table: NetworkTable) -> None:
    """A text network takes no pixels, and says what it takes."""
    with pytest.raises(UsageError, match="seq:128"):
        table.find("bert-base-uncased", "3x224x224")
    with pytest.raises(UsageError, match="3x224x224"):
        table.find("resnet50", "seq:128")


def test_rows_hold_no_impossible_numbers(table: NetworkTable) -> None:
    """Every kernel is of a known kind, moves something or computes, and 16 bits are the least."""
    rows = np.load(FOLDER / OPERATIONS)
    assert rows["kind"].max() < len(KINDS)
    assert rows["count"].min() > 0
    for name in ("flops", "sample_elements", "fixed_elements"):
        assert np.isfinite(rows[name]).all()
        assert rows[name].min() >= 0
    widths = rows["amp_sample_width"][rows["sample_elements"] > 0]
    assert widths.min() >= 2 * 32


# How a file with a network is written, by the name that it is called.
FILES = (
    "{}.py",
    "{}.py:build",
    "{}.py:other",
    "./{}.py",
    "./{}",
    "models/{}.py:build",
    "/nets/{}.py",
    "~/{}.py:build",
    "nets\\{}",
    "{}.pth",
    "{}.onnx",
    "{}.ipynb",
    "runs/{}.ckpt",
    " {}.py ",
)


def test_no_known_network_answers_for_a_file_that_is_called_like_it(table: NetworkTable) -> None:
    """By any of its names and aliases, in any letters; the names themselves stay known."""
    called = {name.rpartition("/")[2] for name in table.names}
    called |= {alias for network in table.search() for alias in network.aliases}
    called |= {"ResNet-50", "ViT-B/16", "yolov8", "bert"}
    assert len(called) > 2000
    taken = [
        file.format(written)
        for name in called
        for file in FILES
        for written in (name, name.upper(), name.replace("_", "-"))
        if table.knows(file.format(written))
    ]
    assert taken == []
    assert [name for name in called if not table.knows(name)] == []


def test_a_tag_of_weights_is_no_file(table: NetworkTable) -> None:
    """Nor is an organisation before a checkpoint."""
    for name in ("resnet50.a1_in1k", "timm/regnetx_002.pycls_in1k", "microsoft/resnet-50"):
        assert table.knows(name), name


def test_the_table_is_small_and_opens_at_once() -> None:
    """1.5 MB compressed, and a few milliseconds for the first network."""
    packed = sum(len(gzip.compress((FOLDER / name).read_bytes(), 9)) for name in (NETWORKS, OPERATIONS))
    assert packed < 1.5e6
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        NetworkTable().find("resnet50")
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.02


def test_the_table_needs_no_torch() -> None:
    """Asking it loads NumPy and the standard library alone."""
    asked = (
        "import sys; from advisor.models.performance.network_table import NetworkTable; "
        "NetworkTable().find('resnet50'); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'pandas', 'sklearn')))"
    )
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
