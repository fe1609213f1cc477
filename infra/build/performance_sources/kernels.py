"""Makes kernels.csv.gz and marks*.csv: single kernels and micro-benchmarks, for priors.

`python -m advisor.infra.build.performance_sources.kernels --data DIR [--unlicensed FILE]`, run in the
repository's root; DIR as for `observations`."""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.infra.build.performance_sources.naming import find_source, gpu_of
from advisor.models.performance.frames import Column

HERE = Path(__file__).parent
KERNEL_COLUMNS: Mapping[str, Column] = {
    "source": Column("str"),
    "kind": Column("str", meaning="linear, bmm, conv_3x3, or an element-wise one by name"),
    "gpu": Column("str", meaning="as the source says it"),
    "precision": Column("str"),
    "flops": Column("float64"),
    "elements": Column("float64", meaning="numbers that are read and written"),
    "reduction": Column("float64", meaning="numbers of each sum"),
    "width": Column("float64", meaning="numbers of each row of the result"),
    "rows": Column("float64"),
    "seconds": Column("float64", "s"),
    "licence": Column("str"),
}
COLUMNS = tuple(KERNEL_COLUMNS)
_NEUSIGHT_SHAPES = 120
_GEMM_SHAPES = 150
_GEMM_GPUS = {
    "a100_sxm": "A100-SXM4-80GB",
    "b200_sxm": "B200-SXM-180GB",
    "h100_sxm": "H100-SXM5-80GB",
    "h200_sxm": "H200-SXM-141GB",
    "l40s": "L40S",
    "rtx_pro_6000_server": "RTX PRO 6000 Blackwell Server Edition",
}


def _product(table: pd.DataFrame, batched: bool) -> pd.DataFrame:
    """m x k times k x n, repeated `B` times; a linear layer uses the same weights for all of `B`."""
    b, m, n, k = (table[name].astype(float) for name in ("B", "M", "N", "K"))
    weights = n * k * (b if batched else 1)
    return table.assign(
        flops=2 * b * m * n * k, elements=b * m * k + weights + b * m * n, reduction=k, width=n, rows=b * m
    )


def _convolution(table: pd.DataFrame) -> pd.DataFrame:
    b, c_in, c_out = (table[name].astype(float) for name in ("B", "Input_Channel", "Output_Channel"))
    kernel, side = table["Kernel_Szie"].astype(float), table["Input_Size"].astype(float)
    out = (side + 2 * table.Padding - kernel) // table.Stride + 1
    pixels = out**2
    return table.assign(
        flops=2 * b * c_out * c_in * kernel**2 * pixels,
        elements=b * c_in * side**2 + c_in * c_out * kernel**2 + b * c_out * pixels,
        reduction=c_in * kernel**2,
        width=c_out,
        rows=b * pixels,
        op="conv_" + table["Kernel_Szie"].astype(str) + "x" + table["Kernel_Szie"].astype(str),
    )


def _elementwise(table: pd.DataFrame) -> pd.DataFrame:
    """Two operands and a result; one operand if the other is a number (`addu`) or absent."""
    size = table.B.astype(float) * table.H
    operands = table.op.isin(["add", "mul", "sub", "div", "pow"]).map({True: 3, False: 2})
    return table.assign(
        flops=size,
        elements=size * operands,
        reduction=1,
        width=table.H,
        rows=table.B,
        op="elementwise_" + table.op.astype(str),
    )


_NEUSIGHT: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "neusight_ops_linear_ms.csv": lambda table: _product(table, batched=False),
    "neusight_ops_bmm_ms.csv": lambda table: _product(table, batched=True),
    "neusight_ops_conv_ms.csv": _convolution,
    "neusight_ops_elementwise_ms.csv": _elementwise,
}


def kernels(folder: Path) -> pd.DataFrame:
    """NeuSight's fp32 kernels without TF32 (PyTorch 2.1, MIT) and aiconfigurator's bf16 GEMM."""
    tables = []
    for name, facts in _NEUSIGHT.items():
        table = facts(pd.read_csv(find_source(folder, name)))
        gpus = [c for c in table if "-" in str(c) or c in ("L4", "P4", "T4")]
        for _, kind in table.groupby("op"):
            share = _NEUSIGHT_SHAPES if table.op.nunique() == 1 else _NEUSIGHT_SHAPES // 3
            tables += [_long(kind, str(g), share, "neusight", "fp32", "MIT") for g in gpus]
    gemm = pd.read_csv(find_source(folder, "aiconfigurator_gemm_bf16_ms.csv"))
    gemm = _product(
        gemm.rename(columns={"m": "M", "n": "N", "k": "K"}).assign(B=1, op="linear"), batched=False
    )
    for column, gpu in _GEMM_GPUS.items():
        long = _long(gemm, column, _GEMM_SHAPES, "aiconfigurator", "bf16", "Apache-2.0")
        tables.append(long.assign(gpu=gpu))
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


def _long(
    table: pd.DataFrame, gpu: str, shapes: int, source: str, precision: str, licence: str
) -> pd.DataFrame:
    measured = table[table[gpu] > 0]
    chosen = measured.iloc[spread(measured, shapes)]
    return chosen.assign(
        source=source,
        kind=chosen.op,
        gpu=gpu,
        precision=precision,
        licence=licence,
        seconds=chosen[gpu] / 1000,
    )[list(COLUMNS)]


def spread(table: pd.DataFrame, count: int) -> list[int]:
    """Positions of `count` shapes that are far apart in the logarithms of their sizes."""
    if len(table) <= count:
        return list(range(len(table)))
    sizes = np.log(table[["flops", "elements", "reduction", "width"]].to_numpy(float))
    far = ((sizes - sizes.mean(axis=0)) ** 2).sum(axis=1)
    chosen = [int(far.argmin())]
    nearest = np.full(len(sizes), np.inf)
    for _ in range(count - 1):
        nearest = np.minimum(nearest, ((sizes - sizes[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(nearest.argmax()))
    return sorted(chosen)


def marks(folder: Path) -> pd.DataFrame:
    """TFLOPS of matrix products and GB/s of copies, one per row, with each source's licence."""
    table = pd.read_csv(find_source(folder, "micro_tflops.csv"))
    licences = {"mli": "Apache-2.0", "stas00": "CC BY-SA 4.0"}
    table["licence"] = [licences.get(s.split("/")[0], "none seen") for s in table.source]
    table["gpu"] = table.gpu.map(gpu_of)
    table["unit"] = np.where(table.what.str.contains("GB/s"), "GB/s", "TFLOPS")
    table = table[~table.gpu.str.startswith("MI")].rename(columns={"tflops": "value"})
    columns = ["source", "what", "precision", "gpu", "value", "unit", "framework", "licence"]
    return table[columns].sort_values(["source", "gpu", "what", "precision"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables beside this file."""
    parser = argparse.ArgumentParser(prog="advisor.infra.build.performance_sources.kernels")
    parser.add_argument("--data", type=Path, required=True, help="the folder of public tables")
    parser.add_argument("--unlicensed", type=Path, help="for marks without a licence")
    options = parser.parse_args(arguments)
    rows = kernels(options.data)
    path = HERE / "kernels.csv.gz"
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(rows.to_csv(index=False, float_format="%.5g").encode())
    result = marks(options.data)
    share_alike = result.licence.str.startswith("CC BY-SA")
    free = ~share_alike & (result.licence != "none seen")
    result[free].to_csv(HERE / "marks.csv", index=False)
    result[share_alike].to_csv(HERE / "marks_cc_by_sa.csv", index=False)
    if options.unlicensed:
        result[~free & ~share_alike].to_csv(options.unlicensed, index=False)
    sys.stdout.write(f"{rows.groupby(['source', 'kind', 'gpu']).size().to_string()}\n")
    sys.stdout.write(f"{result.groupby(['source', 'licence']).size().to_string()}\n")


if __name__ == "__main__":
    main()
