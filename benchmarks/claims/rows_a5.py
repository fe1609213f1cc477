"""B01 to B07: Lambda's comparison of 2020 (article A5)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import pairwise

from advisor.catalog import load_catalog
from advisor.domain import Request, Task
from advisor.engine import Preparations, recommend
from advisor.errors import UsageError
from advisor.models.performance import load_model
from benchmarks.claims.predicting import data_sheet, gpu_rate, largest_batch, needed_mib
from benchmarks.claims.words import DATA, Finding, Kind, Verdict, agrees_if, out_of_scope

_CLASSES_GIB = (8, 11, 24, 48)
_NETWORKS = ("alexnet", "googlenet", "resnet50", "vgg16", "inception_v3")
_STAND_IN = "resnet50"


def b01() -> Finding:
    """What cards cost to buy."""
    return out_of_scope("prices of cards to buy: the catalogue has what can be rented by the hour")


def b02() -> Finding:
    """Pix2PixHD needs 24 GB for batch 1."""
    return out_of_scope(
        "Pix2PixHD is not among the networks: no kept library has it (docs/reference/networks.md)"
    )


def b03() -> Finding:
    """The largest batch doubles with the memory class."""
    largest = {network: [largest_batch(network, memory) for memory in _CLASSES_GIB] for network in _NETWORKS}
    article = [_largest_of_lambda(memory) for memory in _CLASSES_GIB]
    steps = [
        later / earlier
        for batches in largest.values()
        for earlier, later in pairwise(batches)
        if earlier and batches[-1] > later
    ]
    typical = sorted(steps)[len(steps) // 2]
    return Finding(
        kind=Kind.MODELLED,
        verdict=agrees_if(1.5 <= typical <= 3),
        ours=f"{_STAND_IN} at {_slashed(_CLASSES_GIB)} GiB: {_slashed(largest[_STAND_IN])}; "
        f"typical step x{typical:g}",
        why=f"A5's NASNet-Large: {_slashed(article)}. Powers of two only, fp32 training; other "
        "networks than the article's, of which the model knows no memory. 11 to 24 GiB is more "
        "than a doubling, 8 to 11 less.",
        numbers={"largest_batch": largest, "lambda_nasnet": article},
    )


def b04() -> Finding:
    """Relative throughput of GPUs."""
    theirs = _lambda_rates(4)
    known = _known_gpus(tuple(theirs))
    ours = {gpu: gpu_rate(_STAND_IN, gpu, 4) for gpu in known}
    correlation = spearman([theirs[g] for g in known], [ours[g] for g in known])
    larger = _lambda_rates(16)
    both = _known_gpus(tuple(larger))
    at_16 = spearman([larger[g] for g in both], [gpu_rate(_STAND_IN, g, 16) for g in both])
    return Finding(
        kind=Kind.MODELLED,
        verdict=agrees_if(correlation >= 0.9),
        ours=f"rank correlation {correlation:.2f} over {len(known)} GPUs at batch 4 "
        f"({at_16:.2f} over {len(both)} at batch 16)",
        why=f"Ours is {_STAND_IN}'s fp32 training in PyTorch, theirs NASNet-Large's in TensorFlow: "
        "the model has no rates of their networks. From the RTX 2080 Ti up theirs differ by less "
        "than 7 % at batch 4, so that ranks among them say little.",
        numbers={
            "lambda_images_per_second": {g: theirs[g] for g in known},
            "ours_images_per_second": {g: round(r, 1) for g, r in ours.items()},
        },
    )


def b05() -> Finding:
    """A small GPU forces small batches."""
    catalog = load_catalog()
    request = Request(network="vgg16", task=Task.TRAINING, batch_size=256, gpus=("T4",))
    answer = recommend(request, Preparations(catalog, load_model()), today=catalog.as_of)
    reasons = sorted({one.reason for one in answer.rejected if "memory" in one.reason.lower()})
    refused = answer.chosen is None
    example = next((one.detail for one in answer.rejected if one.reason in reasons), "")
    return Finding(
        kind=Kind.MODELLED,
        verdict=Verdict.PARTLY if refused else Verdict.DIFFERS,
        ours=f"VGG16 at batch 256 on a T4 is rejected ({', '.join(reasons) or 'no reason named'})",
        why="What does not fit is refused with its number, never shrunk silently. Gradient "
        "accumulation is not offered: it is a change of the user's training.",
        numbers={"detail": example},
    )


def b06() -> Finding:
    """Less than 8 GB does not train."""
    needs = {network: needed_mib(network, 16) / 1024 for network in _NETWORKS}
    over = [network for network, gib in needs.items() if gib > 6]
    return Finding(
        kind=Kind.MODELLED,
        verdict=Verdict.PARTLY,
        ours="training at batch 16: "
        + ", ".join(f"{network} {gib:.1f} GiB" for network, gib in needs.items()),
        why=f"A rule for the networks of 2020 that A5 trains. Of A1's networks {len(over)} pass "
        "6 GiB at batch 16; the memory figures err upwards by design.",
        numbers={network: round(gib, 2) for network, gib in needs.items()},
    )


def b07() -> Finding:
    """Free GPUs and their quotas."""
    return out_of_scope("free services have no offers to rank; `advisor measure` runs on them")


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Rank correlation; ties share their mean rank."""
    import numpy as np

    ranks = [_ranks(values) for values in (left, right)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def _lambda_rates(batch: int) -> dict[str, float]:
    return {
        row["gpu"]: float(row["images_per_second"])
        for row in _lambda_rows()
        if int(row["batch"]) == batch and row["images_per_second"]
    }


def _largest_of_lambda(memory_gib: int) -> int:
    return max(
        int(row["batch"])
        for row in _lambda_rows()
        if int(row["memory_gb"]) == memory_gib and row["images_per_second"]
    )


def _lambda_rows() -> list[dict[str, str]]:
    with (DATA / "lambda_nasnet.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _known_gpus(names: Sequence[str]) -> list[str]:
    """Those that the performance model has a data sheet of."""
    known = []
    for name in names:
        try:
            data_sheet(name)
        except UsageError:
            continue
        known.append(name)
    return known


def _slashed(values: Sequence[object]) -> str:
    return " / ".join(map(str, values))
