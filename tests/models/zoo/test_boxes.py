"""Plain torch stands in for torchvision's compiled operators without a difference in results."""

import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.models.zoo.torchvision_operators import import_torchvision

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from advisor.models.zoo import torchvision_operators as operators  # noqa: E402
from advisor.models.zoo.bert import DecoderLayer, EncoderLayer  # noqa: E402
from advisor.models.zoo.torchvision_operators import non_maximum_suppression, pairwise_iou  # noqa: E402


def _greedy(boxes, scores, threshold):
    """The definition, one box after the other."""
    overlaps = pairwise_iou(boxes, boxes)
    kept = []
    for index in sorted(range(len(scores)), key=lambda i: -scores[i]):
        if all(not overlaps[index, other] > threshold for other in kept):
            kept.append(index)
    return kept


@given(st.integers(0, 40), st.integers(0, 2**31), st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]))
def test_suppression_keeps_what_the_greedy_definition_keeps(count, seed, threshold):
    generator = torch.Generator().manual_seed(seed)
    low = torch.randint(0, 6, (count, 2), generator=generator).float()
    size = torch.randint(0, 5, (count, 2), generator=generator).float()
    scores = torch.randperm(count, generator=generator).float()
    boxes = torch.cat([low, low + size], dim=1)
    kept = non_maximum_suppression(boxes, scores, threshold)
    assert kept.tolist() == _greedy(boxes, scores.tolist(), threshold)


def test_overlap_is_what_both_cover_and_substituted_operators_are_told():
    first = torch.tensor([[0.0, 0, 2, 2]])
    second = torch.tensor([[1.0, 1, 3, 3], [0, 0, 2, 2], [5, 5, 6, 6]])
    assert pairwise_iou(first, second).tolist() == [[pytest.approx(1 / 7), 1.0, 0.0]]
    operators.ensure_detection_operators()
    from torchvision.ops import batched_nms

    boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2.1], [0, 0, 2, 2]])
    kept = batched_nms(boxes, torch.tensor([0.5, 0.9, 0.7]), torch.tensor([1, 1, 2]), 0.5)
    assert kept.tolist() == [1, 2]
    operators.ensure_detection_operators()
    from torchvision import extension

    expected = () if extension._has_ops() else operators.OPERATORS
    assert operators.substituted_operators() == expected


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [2, 3, -1])
def test_pooling_agrees_with_torchvision_s_reference(ratio, aligned):
    """Within a pixel of the features, where torchvision's Python and its compiled operator agree."""
    import_torchvision()
    reference = importlib.import_module("torchvision.ops.roi_align")._roi_align.__wrapped__
    torch.manual_seed(0)
    features = torch.rand(2, 3, 12, 17, dtype=torch.float64, requires_grad=True)
    extent = torch.tensor([17.0, 12.0], dtype=torch.float64)
    corners = torch.rand(9, 2, 2, dtype=torch.float64) * (extent + 1.5) - 1
    boxes = 2 * torch.cat([corners.amin(dim=1), corners.amax(dim=1)], dim=1)
    boxes[-1, 2:] = boxes[-1, :2] = torch.tensor([7.0, 9.0])  # a box without area
    image = torch.tensor([0, 1] * 4 + [0], dtype=torch.float64)[:, None]
    rows = torch.cat([image, boxes], dim=1)
    arguments = (0.5, 4, 5, ratio, aligned)
    ours = operators.roi_align(features, rows, (4, 5), 0.5, ratio, aligned)
    expected = reference(features, rows, *arguments)
    assert torch.allclose(ours, expected)
    # Of a box without area the reference's gradient is no number.
    (expected_gradient,) = torch.autograd.grad(
        reference(features, rows[:-1], *arguments).square().sum(), features
    )
    (gradient,) = torch.autograd.grad(ours[:-1].square().sum(), features)
    assert torch.allclose(gradient, expected_gradient)


def test_pooling_counts_nothing_far_outside_and_takes_boxes_image_by_image():
    far = torch.tensor([[0.0, 20, 20, 24, 24], [0, -9, 0, -5, 4]])
    assert not operators.roi_align(torch.ones(1, 1, 8, 8), far, 2, 1.0, 2).any()
    features = torch.rand(2, 3, 8, 8)
    each = [torch.tensor([[0.0, 0, 4, 4]]), torch.tensor([[1.0, 1, 6, 5], [2, 2, 7, 7]])]
    rows = torch.tensor([[0.0, 0, 0, 4, 4], [1, 1, 1, 6, 5], [1, 2, 2, 7, 7]])
    assert torch.equal(
        operators.roi_align(features, each, 2, 1.0, 2), operators.roi_align(features, rows, 2, 1.0, 2)
    )


# The transformer layers compute what torch's own do, given the same weights.


_WIDTH, _HEADS, _INNER = 16, 4, 32


def _copy_attention(ours, theirs):
    query, key_value = theirs.in_proj_weight.split([_WIDTH, 2 * _WIDTH])
    query_bias, key_value_bias = theirs.in_proj_bias.split([_WIDTH, 2 * _WIDTH])
    for layer, weight, bias in (
        (ours.query, query, query_bias),
        (ours.key_value, key_value, key_value_bias),
        (ours.output, theirs.out_proj.weight, theirs.out_proj.bias),
    ):
        layer.weight.data, layer.bias.data = weight.data.clone(), bias.data.clone()


def _copy_rest(ours, theirs, norms):
    ours.feed_forward.widen.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.narrow.load_state_dict(theirs.linear2.state_dict())
    for number, norm in enumerate(norms, start=1):
        nn.init.normal_(getattr(theirs, f"norm{number}").weight)
        norm.load_state_dict(getattr(theirs, f"norm{number}").state_dict())


def test_both_layers_of_a_transformer_agree_with_torch():
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(_WIDTH, _HEADS, _INNER, dropout=0.0, batch_first=True)
    ours = EncoderLayer(_WIDTH, _HEADS, _INNER, dropout=0.0)
    _copy_attention(ours.attention, theirs.self_attn)
    _copy_rest(ours, theirs, [ours.attention_norm, ours.feed_forward_norm])
    inputs = torch.rand(2, 5, _WIDTH)
    assert torch.allclose(ours(inputs), theirs(inputs), atol=1e-5)
    torch.manual_seed(0)
    theirs = nn.TransformerDecoderLayer(_WIDTH, _HEADS, _INNER, dropout=0.0, batch_first=True)
    ours = DecoderLayer(_WIDTH, _HEADS, _INNER, dropout=0.0)
    _copy_attention(ours.self_attention, theirs.self_attn)
    _copy_attention(ours.cross_attention, theirs.multihead_attn)
    _copy_rest(ours, theirs, ours.norms)
    inputs, memory = torch.rand(2, 5, _WIDTH), torch.rand(2, 7, _WIDTH)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    expected = theirs(inputs, memory, tgt_mask=mask)
    assert torch.allclose(ours(inputs, memory), expected, atol=1e-5)
