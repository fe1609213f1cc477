"""What of a profile goes together, and what data sheets say of it."""

from __future__ import annotations

import numpy as np
import pytest

from models.performance.transfer.cells import Profiles, completed
from models.performance.transfer.operations import CLASSES, operation_class
from models.performance.transfer.sheets import class_log_ratio, unmeasured_log_ratio
from tests.models.performance.transfer.synthetic_gpus import FAST, SLOW


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_FusedConv2D", "convolution"),
        ("Conv2DBackpropFilter", "convolution_filter_gradient"),
        ("DepthwiseConv2dNativeBackpropFilter", "depthwise_filter_gradient"),
        ("MaxPoolGrad", "pooling_gradient"),
        ("Relu6Grad", "activation_gradient"),
        ("ResourceApplyGradientDescent", "optimizer"),
        ("_HostRecv", "transfer"),
        ("aten::convolution_backward", "convolution_input_gradient"),
        ("NobodyKnows", "other"),
    ],
)
def test_operations_of_both_frameworks_find_their_class(name: str, expected: str) -> None:
    assert operation_class(name) == expected
    assert expected in CLASSES


def test_a_cut_off_profile_is_filled_up_and_a_whole_one_is_left_alone() -> None:
    operations = np.zeros((2, len(CLASSES)))
    operations[:, 0] = 0.5, 1.2
    filled = completed(Profiles(operations=operations, idle=np.array([0.1, 0.1])), np.ones(2))
    assert filled.operations[:, 0] == pytest.approx([0.9, 1.2])


def test_a_class_nobody_measured_speeds_up_less_than_the_bandwidth_says() -> None:
    by_bandwidth = class_log_ratio("normalisation", SLOW, FAST)
    assert by_bandwidth < unmeasured_log_ratio(SLOW, FAST) < 0
    assert unmeasured_log_ratio(FAST, SLOW) == pytest.approx(-unmeasured_log_ratio(SLOW, FAST))
