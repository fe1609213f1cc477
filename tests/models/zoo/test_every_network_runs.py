"""Every network of the list really trains and infers on this machine, by one code path."""

import subprocess
import sys

import pytest

from advisor.errors import UsageError
from advisor.models.zoo.building import build
from advisor.models.zoo.capture import to_device
from advisor.models.zoo.networks import NETWORKS, Kind, network_info
from advisor.models.zoo.opening import open_network

torch = pytest.importorskip("torch")


def smaller_batch(opened, rows, pixels=None):
    """Images of so many pixels to a side where the network takes them, and their targets."""
    if pixels is None:
        return opened.synthetic_batch(rows)
    inputs = torch.rand(rows, 3, pixels, pixels)
    return inputs, opened.synthetic_targets(inputs)


# Smaller images where a network takes them, so that two cores are done within seconds.
_PIXELS = {
    "alexnet": 64,
    "googlenet": 64,
    "resnet50": 64,
    "vgg16": 32,
    "inception_v3": 139,
    "nasnetalarge": 64,
    "yolov3": 96,
    "maskrcnn_resnet50_fpn": 192,
    "deeplabv3_resnet50": 65,
    "deeplabv3_resnet101": 65,
}


@pytest.mark.night
@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_and_an_inference_are_real(name):
    if NETWORKS[name].needs == "zoo":
        pytest.importorskip("timm")
    torch.manual_seed(0)
    opened = open_network(name)
    network = opened.build().train()
    inputs, targets = smaller_batch(opened, NETWORKS[name].min_training_batch, _PIXELS.get(name))
    loss = opened.training_loss(network, inputs, targets)
    loss.backward()
    assert loss.ndim == 0
    assert loss.isfinite()
    trained = [value for value in network.parameters() if value.requires_grad]
    assert all(value.grad is not None and value.grad.isfinite().all() for value in trained)
    with torch.no_grad():
        outputs = opened.forward(network.eval(), inputs[:1])
    assert all(value.isfinite().all() for value in _tensors(outputs))


@pytest.mark.slow
def test_mask_rcnn_keeps_its_mask_head_as_busy_as_it_can_be():
    """An untrained network would find nothing, and be measured as faster than it is."""
    opened = open_network("maskrcnn_resnet50_fpn")
    network = opened.build()
    outlined = []
    network.roi_heads.mask_head.register_forward_hook(
        lambda _module, inputs, _output: outlined.append(len(inputs[0]))
    )
    inputs, targets = smaller_batch(opened, 1, 192)
    with torch.no_grad():
        opened.training_loss(network.train(), inputs, targets)
        result = opened.forward(network.eval(), inputs)
    assert outlined == [128, 100]
    assert [entry["masks"].shape for entry in result] == [(100, 1, 192, 192)]


@pytest.mark.parametrize("name", NETWORKS)
def test_batches_have_the_declared_shape_and_fit_together(name):
    info = NETWORKS[name]
    inputs, targets = open_network(name).synthetic_batch(3, "meta")
    assert inputs.shape == (3, *info.input_shape)
    assert inputs.dtype == (torch.float32 if info.takes_images else torch.int64)
    assert all(len(value) == 3 and value.is_meta for value in _tensors(targets))


@pytest.mark.parametrize("name", [n for n, i in NETWORKS.items() if i.kind is Kind.DETECTION])
def test_synthetic_objects_lie_inside_their_image(name):
    targets = open_network(name).synthetic_targets(torch.empty(4, 3, 64, 64))
    if name == "yolov3":
        classes, centre, size = targets[..., 0], targets[..., 1:3], targets[..., 3:]
        corners = torch.cat([centre - size / 2, centre + size / 2], dim=-1) * 64
    else:
        classes, corners = targets["labels"], targets["boxes"]
        assert targets["masks"].shape == (4, 7, 64, 64)
        area = (corners[..., 2:] - corners[..., :2]).prod(-1)
        near = (corners[..., 2:] - corners[..., :2]).sum(-1) + 1
        assert ((targets["masks"].sum((-1, -2)) - area).abs() <= near).all()
        assert classes.min() >= 1
    assert classes.max() < NETWORKS[name].classes
    assert corners.min() >= -1e-4
    assert corners.max() <= 64 + 1e-4


def test_batches_travel_to_a_device_and_those_that_cannot_be_are_refused_before_torch():
    opened = open_network("deeplabv3_resnet50")
    inputs, targets = opened.synthetic_batch(1, "meta")
    with pytest.raises(UsageError, match="--batch-size 2 or more"):
        opened.training_loss(torch.nn.Identity(), inputs, targets)
    with pytest.raises(UsageError, match="takes words"):
        _ = NETWORKS["bert_base"].input_pixels
    batch = {"a": torch.ones(2), "b": (torch.ones(1), [torch.ones(3)])}
    moved = to_device(batch, "meta")
    assert moved["a"].is_meta
    assert moved["b"][1][0].is_meta


def _tensors(tree):
    if isinstance(tree, torch.Tensor):
        return [tree]
    branches = tree.values() if isinstance(tree, dict) else tree
    return [leaf for branch in branches for leaf in _tensors(branch)]


# The zoo answers without torch, builds what it names, and refuses what it does not know.


def test_every_network_is_listed_under_its_own_name_without_torch():
    code = "import sys, advisor.models.zoo; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert all(network_info(name).name == name for name in NETWORKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(n for n, i in NETWORKS.items() if i.classes == 1000))
def test_every_imagenet_network_maps_its_input_to_a_thousand_logits(name):
    torch = pytest.importorskip("torch")
    side = NETWORKS[name].input_pixels
    with torch.device("meta"):
        network = build(name).train()
        logits = network(torch.empty(2, 3, side, side))
    assert logits.shape == (2, 1000)
