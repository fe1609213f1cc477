"""The transformer layers compute what torch's own do, given the same weights."""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from advisor.models.zoo.bert import DecoderLayer, EncoderLayer  # noqa: E402

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


def test_an_encoder_layer_agrees_with_torch():
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(_WIDTH, _HEADS, _INNER, dropout=0.0, batch_first=True)
    ours = EncoderLayer(_WIDTH, _HEADS, _INNER, dropout=0.0)
    _copy_attention(ours.attention, theirs.self_attn)
    _copy_rest(ours, theirs, [ours.attention_norm, ours.feed_forward_norm])
    inputs = torch.rand(2, 5, _WIDTH)
    assert torch.allclose(ours(inputs), theirs(inputs), atol=1e-5)


def test_a_decoder_layer_agrees_with_torch_and_does_not_look_ahead():
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
