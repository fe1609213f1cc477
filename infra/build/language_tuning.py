"""Makes advisor/data/language/finetuning.json: `python -m advisor.infra.build.language_tuning`.

Fits the tuning rates on infra/build/language_sources/training.csv.gz, then refits without each model and
without each GPU for the bounds: some 20 seconds."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from advisor.infra.build.fitting.files import write_tuning
from advisor.infra.build.fitting.tuning import (
    Measured,
    balanced,
    fitted,
    gpu_group,
    left_out,
    measured_rows,
    model_group,
)
from advisor.infra.build.language_sources.rows import TRAINING_PATH, TrainingRow, read_table
from advisor.infra.build.language_sources.sheets import bundled_gpu_facts
from advisor.models.language.finetuning.predictor import GPU, MODEL, PATH, FineTuningPredictor

# Sources and licences of the rows: infra/build/language_sources/SOURCES.md.
_TRAINED_ON = "{count} published runs of {sources}"


def training_measured() -> list[Measured]:
    """The committed rows that state a rate."""
    return measured_rows(read_table(TrainingRow, TRAINING_PATH), bundled_gpu_facts())


def calibrated(rows: Sequence[Measured]) -> FineTuningPredictor:
    """The predictor fitted on rows; its intervals come from models and GPUs that were left out."""
    cards = [gpu_group(row.run) for row in rows]
    standardised = {
        MODEL: tuple(sorted(left_out(rows, model_group).standardised.tolist())),
        GPU: balanced(left_out(rows, gpu_group).standardised, cards),
    }
    sources = ", ".join(sorted({row.run.source for row in rows}))
    trained_on = _TRAINED_ON.format(count=len(rows), sources=sources)
    return FineTuningPredictor(fitted(rows), standardised, trained_on=trained_on)


def main() -> None:
    """Fit the predictor and write the file."""
    predictor = calibrated(training_measured())
    write_tuning(predictor)
    sys.stdout.write(f"{len(predictor.belief.names)} parameters in {PATH}\n")


if __name__ == "__main__":
    main()
