"""Memory of every network of the table: `python -m advisor.infra.build.networks.memory FOLDER`.

Steps are replayed without computing, one file a network and input in FOLDER, so that a stop loses little;
then all of them become advisor/data/performance/memory.npy. What has no file there stays as it was replayed
before, or else is derived from its line of networks.csv."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.infra.build.fitting.files import seal
from advisor.infra.build.networks.table import TooLongError, failure, result_path, within, write_result
from advisor.infra.build.networks.variants import Variant
from advisor.models.bundled import FOLDER
from advisor.models.performance.memory.steps import BATCHES, BUNDLED, PRECISIONS
from advisor.models.zoo.kernels import PRIME_BATCH
from advisor.models.zoo.tracing import RUNS, sizes_mib, step_facts

_SECONDS_EACH = 120.0
# Names in memory.npy of the runs of `advisor.models.zoo.tracing`, in order.
_TABLE_RUNS = {
    "training": RUNS["training/{}"],
    "checkpointing": RUNS["training/{}/checkpointing"],
    "inference": RUNS["inference/{}"],
}
FACTS = (
    "forward_sample",
    "forward_fixed",
    *(f"peak_{b}" for b in BATCHES),
    *(f"reserved_{b}" for b in BATCHES),
)
DTYPE = np.dtype(
    [
        ("library", "S16"),
        ("name", "S64"),
        ("input", "S24"),
        ("weights_mib", "<f4"),
        ("trained_mib", "<f4"),
        ("facts", "<f4", (len(_TABLE_RUNS), len(PRECISIONS), len(FACTS))),
    ]
)


def variant_memory(variant: Variant) -> dict[str, Any]:
    """The memory facts of a variant for memory.npy; "failed" gives the reason if torch cannot follow it."""
    subject = variant.subject()
    try:
        with within(_SECONDS_EACH):
            return _on_meta(variant, subject)
    except (Exception, TooLongError):
        try:
            with within(_SECONDS_EACH):
                return _on_fake(variant, subject)
        except (Exception, TooLongError) as error:
            return {"failed": failure(error)}


def _on_meta(variant: Variant, subject: Any) -> dict[str, Any]:
    import torch

    from advisor.models.zoo.building import without_initial_values

    with without_initial_values(), torch.device("meta"):
        network = subject.build()
        batch = subject.synthetic_batch(PRIME_BATCH, "meta")
    return _facts(variant, subject, network, batch)


def _on_fake(variant: Variant, subject: Any) -> dict[str, Any]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    from advisor.models.zoo.building import make_fake, without_initial_values

    make_mode: Any = FakeTensorMode
    mode = make_mode(allow_non_fake_inputs=True)
    with without_initial_values():
        network = subject.build()
    make_fake(network, mode)
    with mode:
        return _facts(variant, subject, network, subject.synthetic_batch(PRIME_BATCH))


def _facts(variant: Variant, subject: Any, network: Any, batch: Any) -> dict[str, Any]:
    runs: dict[str, dict[str, float]] = {}
    for name, run in _TABLE_RUNS.items():
        if run.training and not variant.training:
            continue
        try:
            inside = _attention_taken_apart if variant.library == "advisor" else nullcontext
            runs[name] = step_facts(network, subject, batch, run, inside)
        except Exception:
            if name != "checkpointing":
                raise
    weights, trained = sizes_mib(network)
    return {"family": type(network).__name__, "weights_mib": weights, "trained_mib": trained, "runs": runs}


@contextmanager
def _attention_taken_apart() -> Iterator[None]:
    """Trace attention with score tensors: the articles' networks ran before it was fused."""
    import torch
    from torch.overrides import TorchFunctionMode

    mode: Any = TorchFunctionMode  # untyped

    class TakenApart(mode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(func, "__name__", "") == "scaled_dot_product_attention":
                with torch._C.DisableTorchFunction():
                    return func(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    with TakenApart():
        yield


def capture(variants: Sequence[Variant], folder: Path) -> None:
    """Write one file for each variant that has none yet."""
    from advisor.infra.build.networks.building import quiet

    folder.mkdir(parents=True, exist_ok=True)
    for variant in variants:
        if result_path(folder, variant.key).exists():
            continue
        with quiet():
            document = {"key": variant.key, **variant_memory(variant)}
        write_result(folder, document)
        sys.stderr.write(f"{variant.key} {document.get('failed', '')}\n")


def build(folder: Path, table: Path = FOLDER) -> tuple[int, int]:
    """Write memory.npy, a row for each line of networks.csv; returns the number of rows and of replayed ones.

    A line without a replay in the folder keeps its replay in the old memory.npy if the network's size is
    unchanged; other rows are derived from the live memory in the line."""
    before = _replayed_before(table / BUNDLED)
    rows, replayed = [], 0
    with (table / "networks.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            key = line["library"], line["name"], line["input"]
            sizes = float(line["weights_mib"]), float(line["trained_mib"])
            path = result_path(folder, f"{key[0]}/{key[1]}@{key[2]}")
            runs = json.loads(path.read_text()).get("runs") if path.exists() else None
            kept = before.get((*key, *np.array(sizes, np.float32)))
            if runs or kept is None:
                rows.append(facts_row(key, *sizes, runs or derived_runs(line)))
            else:
                rows.append(kept)
            replayed += bool(runs or kept)
    np.save(table / BUNDLED, table_of(rows), allow_pickle=False)
    return len(rows), replayed


def _replayed_before(path: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Replayed rows by the columns that precede their facts.

    A replayed step leaves some memory, at least its output; a derived inference leaves none."""
    table = np.load(path) if path.exists() else np.array([], DTYPE)
    if table.dtype != DTYPE:
        return {}
    left = table["facts"][..., FACTS.index("forward_sample")]
    rows = [tuple(row) for row in table[(left != 0).all(axis=(1, 2))]]
    return {(*(entry.decode() for entry in row[:3]), *row[3:5]): row for row in rows}


def derived_runs(line: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """An estimate of what a replay would give, from the live memory in a line of networks.csv.

    The shares are least squares on 310 replayed networks: errors are 5 to 8 % of the reserved memory in
    training, and 12 to 25 % in inference (of much less); the median is a third less."""
    runs: dict[str, dict[str, float]] = {"inference": {}, "training": {}}
    trained, weights = float(line["trained_mib"]), float(line["weights_mib"])
    for precision in PRECISIONS:
        saved, fixed, transient, idle, busy = (
            float(line[f"{name}_{precision}_mib"] or 0)
            for name in ("saved", "saved_fixed", "transient", "inference_peak", "training_peak")
        )
        casts = 0.4 * weights if precision == "amp" else 0.0
        runs["training"] |= {f"{precision}_forward_sample": saved, f"{precision}_forward_fixed": fixed}
        runs["inference"] |= {f"{precision}_forward_sample": 0.0, f"{precision}_forward_fixed": 0.0}
        for batch, of_gradients in zip(BATCHES, (0.95, 0.55, 0.0), strict=True):
            peak = max(busy * batch + fixed, 0.8 * busy * batch + 0.75 * trained)
            spare = 1.3 * transient * batch + 2.0
            runs["training"][f"{precision}_peak_{batch}"] = peak
            runs["training"][f"{precision}_reserved_{batch}"] = max(
                peak + spare, busy * batch + of_gradients * trained + 0.5 * fixed + spare
            )
            live = idle * batch + casts
            runs["inference"][f"{precision}_peak_{batch}"] = live
            runs["inference"][f"{precision}_reserved_{batch}"] = 1.3 * live + 4.0
    return runs if int(line["training_rows"]) else {"inference": runs["inference"]}


def facts_row(
    key: tuple[str, str, str], weights_mib: float, trained_mib: float, runs: Mapping[str, Mapping[str, float]]
) -> tuple[Any, ...]:
    """A row of memory.npy: (library, name, input), and the `memory_facts` of each run."""
    facts = [
        [[runs.get(run, {}).get(f"{precision}_{fact}", np.nan) for fact in FACTS] for precision in PRECISIONS]
        for run in _TABLE_RUNS
    ]
    library, name, size = (entry.encode() for entry in key)
    return library, name, size, weights_mib, trained_mib, facts


def table_of(rows: Sequence[tuple[Any, ...]]) -> NDArray[np.void]:
    """Rows in the bundled form: sizes have 12 bits of mantissa (0.02 %), which compresses well."""
    table = np.array(list(rows), dtype=DTYPE)
    bits = table["facts"].view(np.uint32)
    table["facts"] = ((bits + np.uint32(1 << 10)) & np.uint32(0xFFFFF800)).view(np.float32)
    return table


def main() -> None:
    """Replay variants without a file (not with --build), write the table, and update the digests."""
    parser = argparse.ArgumentParser(
        prog="python -m advisor.infra.build.networks.memory", description=(__doc__ or "").partition("\n")[2]
    )
    parser.add_argument("folder", type=Path, help="of replays")
    parser.add_argument("--build", action="store_true", help="replay nothing, write the table")
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        nargs="+",
        default=["*"],
        help="replay these, in this order, as in 'torchvision/*' 'timm/vit_*@3x224x224'",
    )
    wanted = parser.parse_args()
    if not wanted.build:
        from advisor.infra.build.networks.__main__ import all_variants

        capture(chosen(all_variants(), wanted.only), wanted.folder)
    rows, replayed = build(wanted.folder)
    seal()
    sys.stderr.write(f"{rows} rows in {FOLDER / BUNDLED}, {replayed} of them replayed\n")


def chosen(variants: Sequence[Variant], patterns: Sequence[str]) -> list[Variant]:
    """Variants whose key matches a pattern, ordered by the first pattern that matches."""
    result = (entry for pattern in patterns for entry in variants if fnmatchcase(entry.key, pattern))
    return list({entry.key: entry for entry in result}.values())


if __name__ == "__main__":
    main()
