"""What the network table is made of: rows of kernels, and memory, from one record a step."""

import pytest

torch = pytest.importorskip("torch")

from advisor.domain import MIB  # noqa: E402
from advisor.infra.build.networks.live import facts_with_memory  # noqa: E402
from advisor.models.network_columns import KINDS, WIDTH_STEPS, MemoryFacts  # noqa: E402
from advisor.models.zoo.step_facts import network_facts  # noqa: E402


class Subject:
    """A small module on images of 16 pixels, trained by its mean."""

    def __init__(self, make):
        self.make = make

    def build(self):
        return self.make()

    def synthetic_batch(self, batch_size, device="cpu"):
        return torch.empty(batch_size, 3, 16, 16, device=device), None

    def forward(self, network, inputs):
        return network(inputs)

    def training_loss(self, network, inputs, targets):
        return network(inputs).float().mean()


def convolutions():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, padding=1)
    )


def elements(rows, *, casts):
    cast = KINDS.index("cast")
    return sum(row.kernels * row.sample_elements for row in rows if casts or row.kind != cast)


def test_one_record_tells_both_precisions_and_the_memory_that_autograd_saves():
    """Convolutions read and write 16 bits in mixed precision; without casts it is fp32's step."""
    facts, captured = network_facts(Subject(convolutions)), facts_with_memory(Subject(convolutions))
    assert (facts.inference, facts.training) == (captured["inference"], captured["training"])
    memory = MemoryFacts(**captured["memory"])
    products = [row for row in facts.inference if row.flops]
    assert {row.amp_sample_width for row in products} == {2 * WIDTH_STEPS}
    assert sum(row.kernels * row.flops for row in products) == pytest.approx(
        2 * 256 * 9 * (3 * 8 + 8 * 8), rel=1e-3
    )
    assert elements(facts.inference, casts=False) == pytest.approx(256 * (3 + 8 + 8 + 8 + 8 + 8), rel=1e-3)
    assert elements(facts.inference, casts=True) > elements(facts.inference, casts=False)
    values = 256 * (3 + 8)
    assert memory.saved_fp32 * MIB == 4 * values
    assert memory.saved_amp * MIB == 2 * values
    assert memory.saved_fixed_fp32 == 0
    assert memory.saved_fixed_amp * MIB == 2 * (9 * (3 * 8 + 8 * 8))
    assert memory.inference_peak_fp32 * MIB == 4 * 256 * (8 + 8)
    assert memory.transient_fp32 * MIB == 4 * 256 * (8 + 8)
    assert memory.training_peak_fp32 > memory.inference_peak_fp32


def test_networks_that_cannot_train_or_look_at_their_weights_are_captured():
    facts = network_facts(Subject(convolutions), training=False)
    assert facts.training == []
    assert facts_with_memory(Subject(convolutions), training=False)["memory"]["saved_fp32"] == 0
    assert facts.inference

    def make():
        width = int(torch.linspace(1, 8, 4)[-1].item())
        return torch.nn.Conv2d(3, width, 1)

    facts = network_facts(Subject(make))
    assert facts.weights_mib * MIB == 4 * (3 * 8 + 8)
    # A tensor that is asked where it lives starts no kernel.
    assert {KINDS[row.kind] for row in facts.inference} == {"cast", "conv_1x1"}


@pytest.mark.parametrize("last", [False, True])
def test_interpolation_of_channels_first_has_a_thread_a_pixel(last):
    class Enlarged(torch.nn.Module):
        def forward(self, images):
            laid_out = images.to(memory_format=torch.channels_last) if last else images
            return torch.nn.functional.interpolate(laid_out, scale_factor=2, mode="bilinear")

    (row,) = [
        row
        for row in network_facts(Subject(Enlarged), training=False).inference
        if row.kind in (KINDS.index("upsample"), KINDS.index("pool"))
    ]
    assert KINDS[row.kind] == ("pool" if last else "upsample")
    assert last or row.width == 32 * 32
