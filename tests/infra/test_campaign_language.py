"""The campaign of language models: its cells, its file, and a real run of tiny shapes."""

import json

import pytest

from advisor.errors import DataError
from advisor.infra.build.campaign.__main__ import main
from advisor.infra.build.campaign.language.cells import (
    SHAPES,
    TINY_SHAPES,
    TRANSFORMERS,
    VLLM,
    cells,
    full_grid,
    missing,
    quick_grid,
    servers,
    write_model_folder,
)
from advisor.infra.build.campaign.language.session import _Endpoint, language_records
from tests.sweeps.measure.endpoint.openai_server import fake_endpoint

GRID = full_grid(SHAPES)


def every_cell(engine=VLLM, has_fp8=True, has_cuda=True):
    result = servers(GRID, engine, has_fp8=has_fp8, has_cuda=has_cuda)
    return [cell for server in result for cell in cells(server, GRID)]


def test_a_large_gpu_has_three_hundred_cells_and_none_beyond_device_engine_or_memory():
    """All of both shapes, formats, and graphs on and off; no fp8 before Ada nor in plain transformers."""
    result = every_cell()
    assert 300 <= len(result) <= 340
    assert len({cell.key for cell in result}) == len(result)
    assert {cell.concurrency for cell in result} >= {1, 256}
    assert {cell.server.precision for cell in result} == {"bf16", "fp8"}
    assert {cell.server.graphs for cell in result} == {True, False}
    assert {c.server.precision for c in every_cell(has_fp8=False)} == {"bf16"}
    assert {c.server.precision for c in every_cell(TRANSFORMERS)} == {"bf16"}
    assert {c.server.graphs for c in every_cell(has_fp8=False, has_cuda=False)} == {False}
    result = every_cell()
    first = next(cell for cell in result if cell.concurrency == 64)
    row = {**first.row(), "status": "out_of_memory"}
    left = missing(iter(result), {first.key: row})
    gone = {cell.key for cell in result} - {cell.key for cell in left}
    assert {key.rpartition("/b")[0] for key in gone} == {first.key.rpartition("/b")[0]}
    assert {int(key.rpartition("/b")[2]) for key in gone} == {64, 128, 256}


def test_a_line_that_was_cut_off_is_measured_again_and_a_wrong_one_is_named(tmp_path):
    """A kill costs the row in flight; another file is not continued."""
    path = tmp_path / "rows.jsonl"
    rows = language_records(path)
    rows.append({"cell": "a", "status": "ok", "concurrency": 1})
    with path.open("ab") as file:
        file.write(b'{"cell": "b", "sta')
    assert set(language_records(path).done) == {"a"}
    assert path.read_bytes().count(b"\n") == 1
    path.write_text('{"cell": "a", "status": "ok", "concurrency": 1}\n{"other": 1}\n')
    with pytest.raises(DataError, match="line 2"):
        language_records(path)


def test_a_servers_cell_is_a_closed_loop_of_its_concurrency():
    """With means, their errors, and the load's own figures."""
    server = servers(GRID, VLLM, has_fp8=False, has_cuda=True)[0]
    cell = next(entry for entry in cells(server, GRID) if entry.concurrency == 4)
    with fake_endpoint() as endpoint:
        row = _Endpoint(endpoint.url, "tiny", {}).row(cell, 1.5)
        assert endpoint.most_in_flight == 4
    assert row["kind"] == "closed"
    assert row["ttft_seconds"] >= endpoint.ttft_seconds
    assert row["tpot_seconds_error"] is not None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_trial_run_measures_every_cell_once(tmp_path, capsys, monkeypatch):
    """Of two tiny shapes by plain transformers; the same command then finds nothing to do."""
    pytest.importorskip("transformers")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "rows.jsonl"
    words = ["language", "--quick", "--engine", "transformers", "--out", str(path)]
    assert main(words) == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    result = servers(quick_grid(TINY_SHAPES), TRANSFORMERS, has_fp8=False, has_cuda=False)
    wanted = [c.key for s in result for c in cells(s, quick_grid(TINY_SHAPES))]
    assert sorted(row["cell"] for row in rows) == sorted(wanted)
    for row in rows:
        assert row["status"] == "ok"
        assert len(row["step_seconds"]) >= 8
        assert row["ttft_seconds"] > 0
        assert row["engine_version"]
    assert main(words) == 0
    assert "0 cells measured in this run" in capsys.readouterr().err


@pytest.mark.slow
def test_the_tokenizer_has_a_token_for_each_byte_and_as_many_as_the_model(tmp_path):
    """A server loads it, encodes any text, and decodes any token."""
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer

    shape = TINY_SHAPES["tiny-dense"]
    folder = write_model_folder(shape, tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "any text, naïve or 中文"
    assert len(tokenizer.encode(text).ids) == len(text.encode())
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.get_vocab_size() == shape["vocab_size"]
    assert tokenizer.decode([300])
