"""Parameters and operations agree with figures that were computed independently."""

import pytest

from advisor.models.performance.networks import bundled_networks
from advisor.models.zoo.torchvision_operators import import_torchvision
from tests.rows import assert_each, table

torch = pytest.importorskip("torch")


def _known(name):
    return bundled_networks()[name]


def _gmacs_per_row(name):
    return bundled_networks()[name].gmacs


def test_bundled_sizes_agree_with_the_reference():
    def check(name, parameters, gmacs):
        assert _known(name).parameters == parameters
        assert _gmacs_per_row(name) == pytest.approx(gmacs, rel=0.01)

    assert_each(check, table("networks")["reference"])


def test_inception_and_deeplab_differ_by_their_auxiliary_heads_and_side():
    """The reference, 27,161,264, has the head that helps training and is left out here. torchvision publishes
    42,004,074 and 178.722 GMACs: 520 pixels and an auxiliary head."""
    import_torchvision()
    from torchvision.models.inception import InceptionAux

    with torch.device("meta"):
        head = sum(value.numel() for value in InceptionAux(768, 1000).parameters())
    assert _known("inception_v3").parameters == 27_161_264 - head
    assert _gmacs_per_row("inception_v3") == pytest.approx(5.7132, rel=0.01)
    import_torchvision()
    from torch.utils.flop_counter import FlopCounterMode
    from torchvision.models.segmentation import deeplabv3_resnet50

    options = {"weights": None, "weights_backbone": None, "num_classes": 21}
    with torch.device("meta"):
        theirs = deeplabv3_resnet50(aux_loss=True, **options).eval()
        head = sum(value.numel() for value in theirs.aux_classifier.parameters())
        counter = FlopCounterMode(display=False)
        with torch.no_grad(), counter:
            theirs(torch.empty(1, 3, 520, 520))
    assert _known("deeplabv3_resnet50").parameters == 42_004_074 - head
    macs = counter.get_total_flops() / 2
    assert macs / 1e9 == pytest.approx(178.722, rel=0.01)


def test_mask_rcnn_and_bert_and_transformer_big_differ_by_what_each_counts():
    """torchvision publishes 134.38 GMACs for noise, in which nothing is found to outline."""
    convolutions = 4 * 256 * 256 * 9 * 14**2
    upsampling, masks = 256 * 256 * 4 * 14**2, 256 * 91 * 28**2
    outlines = 100 * (convolutions + upsampling + masks) / 1e9
    assert _known("maskrcnn_resnet50_fpn").parameters == 44_401_393
    assert _gmacs_per_row("maskrcnn_resnet50_fpn") - outlines == pytest.approx(134.38, rel=0.01)
    # The reference, 13.9482 at 128 words, does not count queries x keys, nor their values.
    inside_attention = 12 * 2 * 128**2 * 768 / 1e9
    assert _known("bert_base").parameters == 110_106_428
    assert _gmacs_per_row("bert_base") - inside_attention == pytest.approx(13.9482, rel=0.01)
    # The reference, 3.4897 at 32 + 32 words, is the encoder's and the softmax's share alone.
    square = 1024**2
    encoder = 6 * 32 * (4 + 8) * square
    decoder = 6 * 32 * (4 + 4 + 8) * square
    softmax = 32 * 1024 * 32_768
    inside_attention = 18 * 2 * 32**2 * 1024
    assert _known("transformer_big").parameters == 209_915_904
    assert (encoder + softmax) / 1e9 == pytest.approx(3.4897, rel=0.001)
    whole = encoder + decoder + softmax + inside_attention
    assert _gmacs_per_row("transformer_big") == pytest.approx(whole / 1e9, rel=0.001)
