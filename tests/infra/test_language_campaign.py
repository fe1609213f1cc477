"""A campaign's file becomes rows like those of published tables."""

import json

import pytest

from advisor.infra.build.language_sources.campaign import campaign_rows, main
from advisor.infra.build.language_sources.rows import read_serving

CELL = {
    "schema": "advisor.language_row/1",
    "cell": "x",
    "measured_at": "2026-11-23T12:00:00+00:00",
    "engine": "vllm",
    "engine_version": "0.33.0",
    "model": "meta-llama/Llama-3.1-8B",
    "precision": "fp8",
    "graphs": True,
    "input_tokens": 1024,
    "output_tokens": 128,
    "concurrency": 16,
    "kind": "closed",
    "status": "ok",
    "reason": "",
    "ttft_seconds": 0.05,
    "tpot_seconds": 0.01,
    "tpot_seconds_error": 0.0001,
    "output_tokens_per_second": 1500.0,
    "load": {"input_tokens": {"mean": 1020.5}, "output_tokens": {"mean": 127.5}},
    "environment": {"gpus": [{"name": "NVIDIA H200"}]},
}


def test_a_cell_is_a_row_of_its_real_lengths_on_the_catalogues_gpu(tmp_path, capsys):
    """Named as other tables name it, with the error of its own window; read back as written."""
    file, table = tmp_path / "rows.jsonl", tmp_path / "rows.csv.gz"
    file.write_text(json.dumps(CELL) + "\n")
    main([str(file), "--to", str(table)])
    (row,) = read_serving(table)
    assert (row.gpu, row.model) == ("H200-SXM-141GB", "meta-llama/Meta-Llama-3.1-8B")
    assert (row.kind, row.concurrency, row.fit) == ("closed", 16, 1)
    assert row.input_tokens == pytest.approx(1020.5)
    assert row.sigma == pytest.approx(0.01)


def test_what_is_no_measurement_of_a_gpu_is_left_out_by_reason():
    """Failed cells, and trial runs on a CPU."""
    failed = CELL | {"status": "failed", "tpot_seconds": None}
    trial = CELL | {"environment": {"gpus": []}}
    rows, left_out = campaign_rows([json.dumps(one) for one in (failed, trial)])
    assert rows == []
    assert dict(left_out) == {"status failed": 1, "no GPU": 1}


def test_steps_without_graphs_are_kept_and_not_fitted():
    """Answers assume CUDA graphs; the difference is worth knowing."""
    (row,), _ = campaign_rows([json.dumps(CELL | {"graphs": False})])
    assert (row.fit, row.flags) == (0, "eager")
