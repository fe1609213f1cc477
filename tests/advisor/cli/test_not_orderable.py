"""What has a price and cannot be ordered is never recommended, and is turned down by name."""

from __future__ import annotations

import pytest

TRAINING = ("recommend", "--task", "training", "--model", "resnet50")


NC_V3 = ("Standard_NC6s_v3", "Standard_NC12s_v3", "Standard_NC24s_v3", "Standard_NC24rs_v3")


@pytest.mark.parametrize(
    ("question", "code", "status", "closed"),
    [
        ("gcp H100", 0, "spot_only", ("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g")),
        ("azure V100", 3, "retired", (*NC_V3, "Standard_ND40rs_v2")),
        ("azure M60", 3, "retired", ("Standard_NV12s_v3", "Standard_NV24s_v3", "Standard_NV48s_v3")),
        ("aws V100", 0, "undescribed", ("p3.2xlarge", "p3.8xlarge", "p3.16xlarge")),
        ("aws M60", 3, "unlisted", ("g3s.xlarge", "g3.4xlarge", "g3.8xlarge", "g3.16xlarge")),
        ("aws H200 us-east-2", 0, "reserved", ("p5e.48xlarge",)),
    ],
)
def test_what_nobody_can_order_is_turned_down_by_name_with_the_day(answer, question, code, status, closed):
    """The price lists name them all."""
    cloud, gpu, *region = question.split()
    wanted = (*TRAINING, "--cloud", cloud, "--gpu", gpu, "--explain-rejected")
    wanted += ("--region", *region) if region else ()
    document = answer(*wanted, code=code)
    chosen = document["recommendation"] or {}
    assert chosen.get("instance_type") not in closed
    rows = {row["instance_type"]: row for row in document["rejected"]}
    for name in closed:
        assert rows[name]["reason"] == "not_offered"
        assert rows[name]["not_orderable"]["status"] == status
        assert rows[name]["not_orderable"]["as_of"] in rows[name]["detail"]


def test_a_type_says_on_which_market_it_is_closed_and_who_says_so(shown, answer):
    """`catalog show`, `catalog list` and `predict` tell the same fact."""
    document = answer("catalog", "show", "a3-highgpu-1g")
    fact = document["not_orderable"]["on-demand"]
    assert (fact["status"], fact["as_of"]) == ("spot_only", "2025-09-13")
    assert "gpuhunt" in fact["source"]
    offers = answer("catalog", "list", "--cloud", "gcp", "--gpu", "H100")["offers"]
    why = {(offer["instance_type"], offer["market"]): offer["not_orderable"] for offer in offers}
    assert why["a3-highgpu-1g", "on-demand"] == fact["why"]
    assert why["a3-highgpu-8g", "on-demand"] is None
    question = ("predict", "--instance", "a3-highgpu-1g", "--task", "inference", "--model", "resnet50")
    out = shown(*question)
    assert "not sold on demand (seen on 2025-09-13)" in " ".join(out.split())
    assert "--market spot" in " ".join(out.split())
