"""Other ways to run PyTorch: which one people take on a GPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import MemoryFormat, Precision, Task, Workload
from advisor.models.performance import load_model
from tests.popular import POPULAR

MODEL, CARDS = load_model(), load_catalog().cards
OPEN = {"precision": True, "memory_format": True, "smallest_batch": 1}


def setting(network, card, task=Task.TRAINING, **changes):
    workload = Workload(network=network, task=task, batch_size=32)
    (fastest,) = MODEL.usual_settings(workload, [CARDS[card]], **{**OPEN, **changes})
    return fastest.precision, fastest.memory_format


@pytest.mark.parametrize(
    ("network", "card", "fastest"),
    [
        ("resnet50", "T4", (Precision.AMP, MemoryFormat.CHANNELS_LAST)),
        ("resnet50", "A100-SXM4-40GB", (Precision.BF16, MemoryFormat.CHANNELS_LAST)),
        ("bert-base-uncased", "H100-SXM5-80GB", (Precision.BF16, MemoryFormat.CONTIGUOUS)),
        ("resnet50", "P100-PCIE-16GB", (Precision.FP32, MemoryFormat.CONTIGUOUS)),
        ("t5-small", "T4", (Precision.FP32, MemoryFormat.CONTIGUOUS)),
        ("t5-small", "A10G", (Precision.BF16, MemoryFormat.CONTIGUOUS)),
    ],
)
def test_a_gpu_runs_a_network_as_people_run_it_there(network, card, fastest):
    assert setting(network, card) == fastest


def test_what_fits_in_fp32_alone_stays_in_fp32():
    """Autocast holds the weights of SDXL in both formats, which is more than 16 GB with all else."""
    assert setting("sdxl", "V100-SXM2-16GB", Task.INFERENCE)[0] is Precision.FP32
    assert setting("sdxl", "A10G", Task.INFERENCE)[0] is Precision.BF16


@given(
    network=st.sampled_from(POPULAR),
    card=st.sampled_from(sorted(CARDS)),
    task=st.sampled_from((Task.TRAINING, Task.INFERENCE)),
    batch=st.sampled_from((1, 8, 64)),
)
def test_no_other_setting_that_is_open_is_faster(network, card, task, batch):
    """By the rates that answers have; and no format is taken that the GPU has no units for."""
    gpu, workload = CARDS[card], Workload(network=network, task=task, batch_size=batch)
    (fastest,) = MODEL.usual_settings(workload, [gpu], **{**OPEN, "smallest_batch": batch})
    assert fastest.precision is not Precision.BF16 or (gpu.capability or 0) >= 8
    assert fastest.precision is not Precision.AMP or 7 <= (gpu.capability or 0) < 8
    assert replace(fastest, precision=workload.precision, memory_format=workload.memory_format) == workload
    rates = [MODEL.predict_gpu([each], gpu)[0].median for each in (workload, fastest)]
    assert rates[1] >= rates[0] or MODEL.gpu_memory_mib(fastest) <= gpu.memory_mib
