"""Language models by name."""

import string
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.families import FAMILIES
from tests.rows import assert_each, table

MODELS = bundled_language_models()
TABLES = table("language_models")


def test_at_least_230_models_are_known():
    """Each with sizes that make a model."""
    assert len(MODELS.names()) >= 230
    assert all(1e7 < MODELS.find(name).parameters < 2e12 for name in MODELS.names())


def test_other_spellings_find_the_model():
    """Capitals, signs, organisation, `Meta-`, `-Instruct`."""

    def check(given_name, name):
        assert MODELS.find(given_name).name == name

    assert_each(check, TABLES["spelled"])


@given(st.sampled_from(MODELS.names()), st.randoms(use_true_random=False))
def test_any_case_and_any_signs_find_a_model_of_the_same_sizes(name, random):
    """Of every model in the table."""
    spelled = "".join(
        random.choice((one.upper(), one.lower())) if one not in "-_" else random.choice("-_") for one in name
    )
    found, meant = MODELS.find(spelled), MODELS.find(name)
    assert (found.parameters, found.kv_heads) == (meant.parameters, meant.kv_heads)


def test_short_names_of_several_models_are_refused_with_the_choices():
    """Nothing is picked for the user."""
    with pytest.raises(UsageError, match="unknown language model") as caught:
        MODELS.find("Mixtral")
    assert "mistralai/Mixtral-8x7B-v0.1" in caught.value.suggestions
    assert caught.value.field == "model"


def test_names_nearby_are_offered():
    """For a slip of the finger."""
    with pytest.raises(UsageError, match="did you mean") as caught:
        MODELS.find("meta-llama/Llma-3.1-8B")
    assert any("Llama-3.1-8B" in name for name in caught.value.suggestions)


def test_models_whose_layers_are_not_covered_are_refused_by_name():
    """Hybrid, linear and sparse attention, layers of several shapes, pictures in layers."""

    def check(name, reason):
        assert name not in MODELS.names()
        with pytest.raises(UsageError, match=reason) as caught:
            MODELS.find(name)
        assert name in str(caught.value)
        assert caught.value.code == "uncovered_model"

    assert_each(check, TABLES["uncovered"])


def test_defaults_of_classes_and_other_networks_are_no_models():
    """The fetched table has them; nobody can serve them."""
    assert not [name for name in MODELS.names() if "(" in name or "?" in name]
    for name in ("bert-base-uncased", "openai/whisper-tiny", "stable-diffusion-v1-5 UNet"):
        with pytest.raises(UsageError):
            MODELS.find(name)


@given(st.text(string.printable, max_size=40))
def test_any_text_is_found_or_refused(text):
    """Never another error."""
    with suppress(UsageError):
        assert MODELS.find(text).name in MODELS.names()


def test_active_weights_are_those_that_makers_name():
    """DeepSeek-V3 37, Kimi K2 32, gpt-oss 5.13 and 3.61, Mixtral 12.9, Llama-4 17 thousand
    million; makers count embeddings now and then, hence 3 %."""

    def check(name, active, apart):
        assert MODELS.find(name).active_parameters == pytest.approx(active, rel=apart)

    assert_each(check, TABLES["active"])


def test_every_architecture_of_the_table_is_known():
    """So that a local configuration of it is read too."""
    unknown = {MODELS.find(name).family for name in MODELS.names()} - FAMILIES.keys()
    assert not unknown


def test_heads_share_kv_heads_equally():
    """In every line; a slip in the table would show."""

    def check(name):
        model = MODELS.find(name)
        assert model.latent or model.heads % model.kv_heads == 0
        assert 0 <= model.window_layers <= model.layers
        assert bool(model.window) == bool(model.window_layers)
        assert model.experts_per_token <= model.experts

    assert_each(check, MODELS.names())
