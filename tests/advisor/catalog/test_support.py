"""What can run, and the reason when it cannot."""

from __future__ import annotations

import pytest

from advisor.catalog import Rejection, Supported, check
from advisor.domain.orderable import NotOrderable
from advisor.messages import Message
from tests.advisor.catalog.builders import make_cpu_instance, make_gpu, make_instance


def noted(supported):
    return " ".join(map(str, supported.notes))


def verdict(instance, gpu=None, needs_gpu=True, closed=None):
    return check(instance, gpu, needs_gpu=needs_gpu, closed=closed)


@pytest.mark.parametrize(
    ("capability", "architecture", "outcome"),
    [
        ("3.7", "x86_64", "unsupported"),
        ("5.0", "x86_64", "CUDA 12.6"),
        ("5.2", "x86_64", "CUDA 12.6"),
        ("6.0", "x86_64", "CUDA 12.6"),
        ("7.0", "x86_64", "CUDA 12.6"),
        ("7.5", "x86_64", ""),
        ("8.9", "x86_64", ""),
        ("10.0", "x86_64", ""),
        ("12.0", "x86_64", ""),
        ("7.5", "arm64", "unsupported"),
        ("8.0", "arm64", ""),
        ("9.0", "arm64", ""),
        ("gfx1011", "x86_64", "unsupported"),
        (None, "x86_64", "facts_missing"),
    ],
)
def test_compute_capability_decides(capability, architecture, outcome):
    """Builds exist from 5.0 on x86-64 (old ones below 7.5) and from 8.0 on arm64."""
    got = verdict(make_instance(architecture=architecture), make_gpu(capability))
    if isinstance(got, Rejection):
        assert got.reason == outcome
    else:
        assert outcome in noted(got)
        assert bool(outcome) == bool(got.notes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu_vendor": "AMD", "gpu_name": "Radeon Pro V520"}, "unsupported"),
        ({"gpu_vendor": "Habana", "gpu_name": "Gaudi HL-205"}, "unsupported"),
        ({"gpu_fraction": 0.125}, "facts_missing"),
        ({"burstable": True}, "facts_missing"),
        ({"ebs_baseline_mib_per_second": None}, "facts_missing"),
        ({"architecture": "arm64_mac"}, "unsupported"),
    ],
)
def test_rejections_name_their_reason(changes, reason):
    """However cheap, what cannot run or is not known is not ranked."""
    got = verdict(make_instance(**changes), make_gpu())
    assert isinstance(got, Rejection)
    assert got.reason == reason
    assert got.detail


def test_a_gpu_without_a_data_sheet_is_not_guessed():
    """RTX PRO 6000 and the like: named, not ranked."""
    got = verdict(make_instance(gpu_name="RTX PRO Server 6000"), None)
    assert got.reason == "facts_missing"
    assert str(got.detail) == "no data sheet for its RTX PRO Server 6000"


def test_cpu_types_run_preprocessing_and_nothing_that_needs_a_gpu():
    """Preprocessing has no accelerator stage."""
    instance = make_cpu_instance()
    assert verdict(instance, needs_gpu=False) == Supported()
    assert verdict(instance) == Rejection("unsupported", Message("has no GPU"))
    accelerated = make_cpu_instance(accelerator="AWS Trainium")
    assert "AWS Trainium" in str(verdict(accelerated).detail)


def test_gpu_types_may_preprocess_whatever_their_gpu():
    """An AMD card does not keep its host from decoding images."""
    assert verdict(make_instance(gpu_vendor="AMD"), needs_gpu=False) == Supported()


def test_a_type_that_the_region_lacks_is_not_offered():
    """Sold elsewhere is not enough."""
    closed = NotOrderable(cloud="aws", status="elsewhere")
    assert verdict(make_instance(), make_gpu(), closed=closed).reason == "not_offered"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("p2.xlarge", "unsupported"),
        ("p3.2xlarge", "not_offered"),
        ("g3s.xlarge", "not_offered"),
        ("g2.2xlarge", "facts_missing"),
        ("g4ad.xlarge", "unsupported"),
        ("g5g.xlarge", "unsupported"),
        ("dl1.24xlarge", "unsupported"),
        ("inf2.xlarge", "unsupported"),
        ("trn1.2xlarge", "unsupported"),
        ("g6f.large", "facts_missing"),
        ("m5.large", "unsupported"),
    ],
)
def test_real_types_are_rejected_by_name(catalog, name, reason):
    """The catalogue's own traps."""
    instance = catalog.instance(name)
    got = verdict(instance, catalog.gpu_of(instance), closed=catalog.closed(instance, None))
    assert isinstance(got, Rejection)
    assert got.reason == reason


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("g4dn.xlarge", ""),
        ("g6.xlarge", ""),
        ("p5.48xlarge", ""),
        ("g7e.2xlarge", ""),
        ("p6-b300.48xlarge", ""),
        ("p3dn.24xlarge", "CUDA 12.6"),
    ],
)
def test_real_types_that_run(catalog, name, note):
    """Turing and newer as they are, Volta with an older CUDA build."""
    instance = catalog.instance(name)
    got = verdict(instance, catalog.gpu_of(instance), closed=catalog.closed(instance, None))
    assert isinstance(got, Supported)
    assert note in noted(got)
