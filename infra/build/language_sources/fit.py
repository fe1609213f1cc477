"""Fits the bundled serving predictor on the committed rows.

`python -m advisor.infra.build.language_sources.fit`"""

from __future__ import annotations

import sys

from advisor.infra.build.fitting.files import write_serving
from advisor.infra.build.fitting.serving import fit_serving, rows_of
from advisor.infra.build.language_sources.rows import read_serving
from advisor.infra.build.language_sources.sheets import bundled_gpu_facts
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.serving import FOLDER
from advisor.models.language.serving.values import MeasuredValue


def committed_values() -> list[MeasuredValue]:
    """The values of committed rows that are marked as usable in a fit."""
    rows = [row for row in read_serving() if row.fit]
    return rows_of(rows, bundled_language_models(), bundled_gpu_facts())


def main() -> None:
    """Fit, calibrate, and write the bundled files."""
    values = committed_values()
    sys.stderr.write(f"{len(values)} values\n")
    write_serving(fit_serving(values), FOLDER)


if __name__ == "__main__":
    main()
