"""Language models by name; what runs where, and how soon it serves."""

import csv
import string
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.words import KvPrecision, LlmEngine, LlmPrecision
from advisor.errors import UsageError
from advisor.infra.build.language_sources.rows import TRAINING_PATH
from advisor.infra.build.language_sources.sheets import bundled_gpu_facts
from advisor.models.language.configs import bundled_language_models, checkpoint_of
from advisor.models.language.support import START, load_seconds, supported, weight_only
from tests.models.language.test_memory import kept
from tests.rows import assert_each, table

MODELS = bundled_language_models()
TABLES = table("language_models")


def test_models_are_found_by_other_spellings_and_without_a_date_and_a_size():
    assert len(MODELS.names()) >= 230
    assert all(1e7 < MODELS.find(name).parameters < 2e12 for name in MODELS.names())

    def check(given_name, name):
        assert MODELS.find(given_name).name == name

    assert_each(check, TABLES["spelled"])
    # Others are told which there are; embedding models are told what they are.
    assert MODELS.find("Devstral-2").name == "mistralai/Devstral-2-123B-Instruct-2512"
    assert MODELS.find("Mistral-Large-3").name == "mistralai/Mistral-Large-3-675B-Instruct-2512"
    assert MODELS.find("Kimi-K2.6").name == "moonshotai/Kimi-K2.6"
    with pytest.raises(UsageError, match="unknown"):
        MODELS.find("Olmo-3")
    for name in ("Qwen/Qwen3-Embedding-8B", "BAAI/bge-reranker-v2-m3"):
        with pytest.raises(UsageError, match="generates none"):
            MODELS.find(name)


@given(st.sampled_from(MODELS.names()), st.randoms(use_true_random=False))
def test_any_case_and_any_signs_find_a_model_of_the_same_sizes(name, random):
    """Of every model in the table."""
    spelled = "".join(
        random.choice((entry.upper(), entry.lower())) if entry not in "-_" else random.choice("-_")
        for entry in name
    )
    network, meant = MODELS.find(spelled), MODELS.find(name)
    assert (network.parameters, network.kv_heads) == (meant.parameters, meant.kv_heads)


@pytest.mark.parametrize(
    ("name", "offered"),
    [("Mixtral", "mistralai/Mixtral-8x7B-v0.1"), ("meta-llama/Llma-3.1-8B", "Llama-3.1-8B")],
)
def test_unknown_names_are_refused_with_those_nearby(name, offered):
    """A short name of several models, of which none is picked for the user, and a slip of the finger."""
    with pytest.raises(UsageError, match="unknown language model") as caught:
        MODELS.find(name)
    assert any(offered in name for name in caught.value.suggestions)
    assert caught.value.field == "model"


def test_models_whose_layers_are_not_covered_are_refused_by_name():
    """Hybrid, linear and sparse attention, layers of several shapes, pictures in layers."""

    def check(name, reason):
        assert name not in MODELS.names()
        with pytest.raises(UsageError, match=reason) as caught:
            MODELS.find(name)
        assert name in str(caught.value)
        assert caught.value.code == "uncovered_model"

    assert_each(check, TABLES["uncovered"])


def test_models_of_2026_have_the_weights_of_their_networks_and_active_ones_as_makers_name_them():
    """To a thousandth, with towers that see or hear; keys and values of tokens, windows and states."""

    def check(name, counted):
        model = MODELS.find(name)
        assert model.parameters > 0.999 * counted
        assert model.parameters - max(counted, 0.0) <= model.other_parameters + 0.001 * counted

    assert_each(check, TABLES["networks"])

    def check(name, tokens, expected):
        (whole,) = kept(MODELS.find(name), tokens)
        assert whole == pytest.approx(expected, rel=0.01)

    assert_each(check, TABLES["sequences"])
    # Makers count embeddings now and then, hence 3 %.

    def check(name, active, apart):
        assert MODELS.find(name).active_parameters == pytest.approx(active, rel=apart)

    assert_each(check, TABLES["active"])


@given(st.text(string.printable, max_size=40))
def test_any_text_is_found_or_refused(text):
    """Never another error."""
    with suppress(UsageError):
        assert MODELS.find(text).name in MODELS.names()


# What runs where: twenty facts, each of which a calculator gets wrong; and how soon it serves.


NVIDIA = {"V100": 7.0, "T4": 7.5, "A100": 8.0, "A10G": 8.6, "L4": 8.9, "H100": 9.0, "B200": 10.0}
ANY = bundled_gpu_facts()["L4"]
CARDS = {
    name: ANY._replace(name=name, compute_capability=capability)
    for name, capability in (NVIDIA | {"RTX PRO 6000": 12.0}).items()
}
CARDS["MI300X"] = ANY._replace(name="MI300X", compute_capability=0.0, vendor="AMD")


def test_formats_run_where_they_do_and_those_without_units_are_weight_only():
    """A word of the reason; none where it runs."""

    def check(precision, kv_precision, engine, card, reason):
        request = LlmPrecision(precision), KvPrecision(kv_precision), LlmEngine(engine), CARDS[card]
        verdict = supported(*request)
        assert (verdict is None) if reason is None else (reason in str(verdict)), verdict

    assert_each(check, TABLES["facts"])

    def check(precision, card, expected):
        assert weight_only(LlmPrecision(precision), CARDS[card]) is expected

    assert_each(check, TABLES["weight_only"])
    models = bundled_language_models()
    request = LlmPrecision.MXFP4, KvPrecision.FP16, LlmEngine.LLAMA_CPP, CARDS["L4"]
    assert supported(*request, models.find("gpt-oss-20b")) is None
    assert "no mxfp4" in str(supported(*request, models.find("Llama-3.1-8B")))


# Seconds until an engine serves.
rates = st.floats(50, 20000)
sizes = st.floats(500, 1.5e6)


@pytest.mark.parametrize("what", ["load", "ready"])
def test_published_loads_and_starts_lie_within_15_percent_and_within_the_bounds(what):
    """Those of as many streams as a question has."""
    with TRAINING_PATH.with_name("model_loads.csv").open(newline="") as file:
        streamed = [row for row in csv.DictReader(file) if row["loader"] == "streamer"]
    rows = [row for row in streamed if row["what"] == what and row["readers"] not in ("1", "4")]
    assert rows
    for row in rows:
        bounds = load_seconds(15e9 / 2**20, float(row["disk_mib_per_second"]))
        bounds = bounds.plus(START) if what == "ready" else bounds
        assert bounds.median == pytest.approx(float(row["seconds"]), rel=0.15)
        assert bounds.lower <= float(row["seconds"]) <= bounds.upper


@given(sizes, rates, st.integers(1, 8))
def test_a_faster_disk_never_takes_longer_and_more_weights_do(mib, disk, gpus):
    slow, fast = load_seconds(mib, disk, gpus), load_seconds(mib, 2 * disk, gpus)
    assert slow.lower <= slow.median <= slow.upper
    assert fast.median <= slow.median < load_seconds(2 * mib, disk, gpus).median


def test_a_disk_without_a_limit_is_bound_by_the_processes_of_the_gpus():
    entry, eight = (load_seconds(100_000, gpus=gpus).median for gpus in (1, 8))
    assert entry == pytest.approx(8 * eight)


@pytest.mark.parametrize(
    ("asked", "checkpoint"),
    [
        ("Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("qwen/qwen2.5-7b", "Qwen/Qwen2.5-7B"),
        ("me/Qwen2.5-7B-Instruct", "me/Qwen2.5-7B-Instruct"),
        ("llama-3.1-8b-instruct", "meta-llama/Meta-Llama-3.1-8B-Instruct"),
    ],
)
def test_what_was_asked_for_is_what_is_loaded(asked: str, checkpoint: str) -> None:
    assert checkpoint_of(asked, bundled_language_models().find(asked).name) == checkpoint
