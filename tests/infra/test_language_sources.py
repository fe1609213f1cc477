"""Published measurements of language models: what is read, corrected and left out."""

import csv
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.infra.build.language_sources import batches, campaign, loops
from advisor.infra.build.language_sources.naming import LeftOutError, gpu_named, link_of, precision_named
from advisor.infra.build.language_sources.rows import ServingRow, read_serving, write_table
from advisor.infra.build.language_sources.serving import filed_once, main, merged_repeats, serving_rows
from tests.rows import table

CASES = table("infra_cases")

# A record of each table as its publisher has it.
RECORDS = json.loads((Path(__file__).parents[1] / "data/language_records.json").read_text())


def inferencex(**changes):
    """A row of the closed loops' table, of a record with these changes."""
    return loops.inferencex({**RECORDS["inferencex"], **changes})


def test_lengths_and_layouts_are_those_of_a_replica_and_what_a_host_cannot_hold_was_misread():
    drawn, own = (inferencex(origin=origin) for origin in ("inferencex_2026-04-27", "nvidia_gap"))
    assert (drawn.input_tokens, drawn.output_tokens) == (900, 900)
    assert (own.input_tokens, own.output_tokens) == (1000, 1000)
    assert ["equal-lengths" in each.flags.split() for each in (drawn, own)] == [False, True]
    with pytest.raises(LeftOutError, match="host"):
        inferencex(tp_size="4", attention_dp_size="4")
    row = inferencex(origin="nvidia_gap", concurrency="224", batch_size="56", attention_dp_size="")
    assert row.concurrency == 56
    assert (row.fit, "layout-doubtful" in row.flags) == (0, True)
    ranks = inferencex(tp_size="1", attention_dp_size="8", batch_size="4", concurrency="32")
    assert ranks.concurrency == 32, "each rank of the attention has a batch of its own"


@pytest.mark.parametrize(("changes", "cache"), CASES["a_cache_has_the_format_that_its_figures_show"])
def test_a_cache_has_the_format_that_its_figures_show(changes, cache):
    assert inferencex(**changes).kv_precision == cache


@pytest.mark.parametrize(
    ("ttft", "tpot", "queued"),
    [("20000", "5", True), ("3000", "2", True), ("3000", "20", False), ("500", "0.1", False)],
)
def test_requests_that_wait_for_admission_are_not_fitted(ttft, tpot, queued):
    row = inferencex(ttft_ms=ttft, tpot_ms=tpot)
    assert ("queued" in row.flags, row.fit) == (queued, 0 if queued else 1)


GAP = {"origin": "nvidia_gap", "backend_version": "0.12.0", "system": "h200_sxm"}
TRTLLM = {"backend": "trtllm", "backend_version": "1.2.0rc6.post3"}


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"model_path": "deepseek-ai/DeepSeek-R1", **TRTLLM}, "speculative"),
        ({"model_path": "Qwen/Qwen3-235B-A22B-FP8", **GAP}, "eager"),
        ({"model_path": "meta-llama/Llama-3.1-8B-Instruct", **GAP}, "prompts-cached"),
    ],
)
def test_what_a_table_does_not_say_of_its_runs_is_flagged(changes, flag):
    row = inferencex(**changes)
    assert (flag in row.flags.split(), row.fit) == (True, 0)


def test_runs_and_repeats_that_are_filed_twice_are_one_row_with_their_spread():
    """A run that is filed twice counts once; without a version two dates are two cells."""
    first = row(source="inferencex", ttft_seconds=0.195682, tpot_seconds=0.016445)
    again = row(source="nvidia-gap", ttft_seconds=0.19568, tpot_seconds=0.01644)
    assert filed_once([first, again]) == [first]
    rows = [row(engine_version="1", tpot_seconds=value) for value in (0.010, 0.012, 0.011)]
    (merged,) = merged_repeats(rows)
    assert merged.tpot_seconds == 0.011
    assert merged.sigma == pytest.approx(0.001 / 0.011)
    dates = [row(date=date, tpot_seconds=0.01) for date in ("2026-03", "2026-04")]
    assert len(merged_repeats(dates)) == 2
    (once,) = merged_repeats([entry._replace(engine_version="1") for entry in dates])
    assert math.isnan(once.sigma)


def test_names_of_cards_formats_and_links_are_those_of_the_catalogue():
    assert precision_named("fp4", "openai/gpt-oss-120b") == "mxfp4"
    assert precision_named("fp4", "Qwen/Qwen3-32B") == "nvfp4"
    links = [("H100-PCIE-80GB", 2, "pcie"), ("H100-SXM5-80GB", 2, "nvlink"), ("H100-SXM5-80GB", 1, "none")]
    assert [link_of(gpu, count) for gpu, count, _ in links] == [link for *_, link in links]
    with pytest.raises(LeftOutError, match="MI300X"):
        gpu_named("AMD MI300X GPU")


def test_a_token_of_a_small_gpu_is_timed_without_the_first():
    """A short run has fewer requests in flight than clients; answers that were not streamed have no first."""
    record = RECORDS["small_gpu"]  # as llmperf measured it
    assert loops.small_gpus(record).tpot_seconds == pytest.approx((101 * 0.02 - 0.1) / 100)
    short = loops.small_gpus(record | {"concurrency": "32", "output_tok_s": "400"})
    assert (short.concurrency, short.output_tokens_per_second) == (8, 400)
    whole = loops.small_gpus(record | {"model": "Yi-1.5-34B-Chat", "tp": "4"})
    assert math.isnan(whole.ttft_seconds)
    assert math.isnan(whole.tpot_seconds)
    assert (whole.output_tokens_per_second, whole.flags) == (150, "not-streamed")


def test_the_batch_of_a_group_of_llama_cpp_and_of_two_cards_in_one_table_are_told_apart():
    """A cache of eight bits on a card without such units is not fitted."""
    row = batches.argonne(RECORDS["argonne"])
    assert (row.gpu, row.output_tokens_per_second) == ("A100-SXM4-40GB", 16 * 128 / 2)
    assert batches.tensorrt_batches(RECORDS["tensorrt"]).output_tokens_per_second == 400
    formats = RECORDS["argonne_formats"]
    assert batches.argonne_formats(formats).fit == 0
    assert batches.argonne_formats(formats | {"Hardware": "Nvidia H100 GPU"}).fit == 1
    record = RECORDS["argonne"] | {"engine": "llama.cpp"}
    with pytest.raises(LeftOutError, match="warming up"):
        batches.argonne(record)
    row = batches.argonne(record | {"batch": "64", "n_gpu": "4"})
    assert (row.concurrency, row.output_tokens_per_second) == (1, 128 / 2)
    assert (row.tensor_parallel, row.pipeline_parallel) == (1, 4)
    names = {"L40S (48G)": "TRT-LLM-FP16", "A100 (80G)": ""} | dict.fromkeys(
        ("Llama-3-8B", "Llama-2-7B", "Mistral-7B", "Llama-2-13B", "Yi-34B", "Llama-2-70B"), "OOM"
    )
    (row,) = loops.qserve(names | {"Llama-3-8B": "1326"})
    assert (row.gpu, row.output_tokens_per_second) == ("L40S", 1326)
    (row,) = loops.qserve(names | {"L40S (48G)": "", "A100 (80G)": "TRT-LLM-W4A16", "Llama-3-8B": "2370"})
    assert (row.gpu, row.precision) == ("A100-SXM4-80GB", "int4-awq")
    record = RECORDS["iog"]
    assert math.isnan(loops.iog(record).ttft_seconds)
    assert loops.iog(record | {"n_gpu": "1"}).ttft_seconds == 8.35
    assert loops.iog(record).input_tokens == 2


def row(**changes):
    usual = ServingRow("s", "Apache-2.0", "m", "L4", "vllm", "bf16", "closed", 128.0, 64.0)
    return usual._replace(**changes)


finite = st.floats(1e-6, 1e9) | st.just(math.nan)
words = st.text(st.characters(codec="ascii", exclude_characters="\0\r\n"), max_size=8)


@given(
    st.lists(
        st.builds(
            row,
            source=words,
            flags=words,
            ttft_seconds=finite,
            concurrency=finite,
            tensor_parallel=st.integers(1, 8),
            input_tokens=finite,
            fit=st.integers(0, 1),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_what_is_written_is_read_again(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "serving.csv.gz"
    write_table(rows, path)
    first = path.read_bytes()
    again = read_serving(path)
    write_table(again, path)
    assert path.read_bytes() == first
    assert sorted(entry.tensor_parallel for entry in again) == sorted(r.tensor_parallel for r in rows)


def test_the_builder_reads_whichever_tables_are_there_and_refuses_one_without_a_needed_column(
    tmp_path, capsys
):
    record = RECORDS["inferencex"]
    with (tmp_path / "inferencex_agg.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, record.keys())
        writer.writeheader()
        writer.writerows([record, record | {"tp_size": "64"}, record | {"system": "abacus"}])
    main(["--data", str(tmp_path), "--to", str(tmp_path / "out.csv.gz")])
    (made,) = read_serving(tmp_path / "out.csv.gz")
    assert (made.gpu, made.gpus, made.link) == ("H100-SXM5-80GB", 2, "nvlink")
    assert "no data sheet of abacus: 1" in capsys.readouterr().out
    assert serving_rows(tmp_path / "nothing")[0] == []
    (tmp_path / "rows.csv").write_text("source,model\na,b\n")
    with pytest.raises(ValueError, match="engine"):
        read_serving(tmp_path / "rows.csv")


def test_the_committed_rows_keep_what_their_columns_promise():
    rows = read_serving()
    assert len(rows) > 3000
    licences = {entry.licence for entry in rows}
    assert licences == {"Apache-2.0", "BSD-3-Clause"}
    for entry in rows:
        assert entry.gpus == entry.tensor_parallel * entry.pipeline_parallel * entry.attention_dp <= 8
        assert entry.link == link_of(entry.gpu, entry.gpus)
        assert (entry.kind == "closed") <= (entry.concurrency >= 1)
        assert entry.kind != "maximum" or math.isnan(entry.concurrency)
        assert entry.fit or entry.flags
        measured = (entry.ttft_seconds, entry.tpot_seconds, entry.output_tokens_per_second)
        assert any(value > 0 for value in measured)
        assert "xiongjie" not in entry.source.lower()


def test_a_cell_is_a_row_of_its_real_lengths_and_what_is_no_measurement_is_left_out(tmp_path, capsys):
    """Named as other tables name it, with the error of its own window; read back as written."""
    file, table = tmp_path / "rows.jsonl", tmp_path / "rows.csv.gz"
    file.write_text(json.dumps(RECORDS["campaign"]) + "\n")
    campaign.main([str(file), "--to", str(table)])
    (row,) = read_serving(table)
    assert (row.gpu, row.model) == ("H200-SXM-141GB", "meta-llama/Meta-Llama-3.1-8B")
    assert (row.kind, row.concurrency, row.fit) == ("closed", 16, 1)
    assert row.input_tokens == pytest.approx(1020.5)
    assert row.sigma == pytest.approx(0.01)
    # Failed cells, and trial runs on a CPU. Steps without CUDA graphs, which answers assume, are kept and not
    # fitted.
    failed = RECORDS["campaign"] | {"status": "failed", "tpot_seconds": None}
    trial = RECORDS["campaign"] | {"environment": {"gpus": []}}
    rows, left_out = campaign.campaign_rows([json.dumps(entry) for entry in (failed, trial)])
    assert rows == []
    assert dict(left_out) == {"status failed": 1, "no GPU": 1}
    (row,), _ = campaign.campaign_rows([json.dumps(RECORDS["campaign"] | {"graphs": False})])
    assert (row.fit, row.flags) == (0, "eager")
