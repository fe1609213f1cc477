"""Facts of every GPU of the bundled catalogue, for measured rows of language models."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from functools import cache

from advisor.domain.machines import gpu_of_row, number_of
from advisor.models.bundled import read_data_sheets
from advisor.models.language.deployments import GpuFacts, gpu_facts


@cache
def bundled_gpu_facts() -> Mapping[str, GpuFacts]:
    """The facts of every GPU of the bundled catalogue, by its name; memory is nominal."""
    rows = csv.DictReader(io.StringIO(read_data_sheets()))
    return {
        row["name"]: gpu_facts(gpu_of_row(row), number_of(row["fp8_tflops"]), row["link"]) for row in rows
    }
