"""One model, many forms: JSON, links, texts and command lines mean the same question."""

from __future__ import annotations

from urllib.parse import urlencode

import click
import jsonschema
import pytest

from advisor.cli.main import cli
from advisor.cli.questions import TaskFieldType, options_of_kind
from advisor.errors import UsageError
from advisor.questions import listings, network
from advisor.questions.fields import Number, Share
from advisor.questions.network import Recommend
from advisor.questions.reading import from_link, from_texts, from_values, options_of, parameters_of, schema_of

KINDS = [network.Recommend, network.Predict, network.Compare, network.MemoryQuestion]
KINDS += [listings.Gpus, listings.Offers, listings.InstanceDetails, listings.Networks]


@pytest.mark.parametrize("text", ["5k", "5,000", "5_000", "5e3", "0.005M"])
def test_a_number_in_a_link_or_a_plan_may_be_typed_as_people_do(text):
    workload = {"task": "inference", "model": "googlenet", "target_throughput": text}
    plain = {name: [value] for name, value in workload.items()} | {"target_throughput": ["5000"]}
    assert from_link(Recommend, urlencode(workload).encode()) == from_texts(Recommend, plain)


def _numeric_options(group, *names):
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if isinstance(command, click.Group):
            yield from _numeric_options(command, *names, name)
            continue
        for option in command.params:
            for kind in _kinds_of(option.type):
                if isinstance(kind, Number):
                    yield " ".join((*names, name, option.opts[0])), kind


def _kinds_of(option_type):
    if isinstance(option_type, TaskFieldType):
        fields = [kind.fields.get(option_type.field) for kind in option_type.kinds.kinds]
        return [field.kind for field in fields if field]
    return [getattr(option_type, "kind", None)]


def test_every_numeric_option_of_every_command_takes_divided_thousands():
    """But for shares, which are below 1, and what may not be as large."""
    options = dict(_numeric_options(cli))
    large = {
        name: kind for name, kind in options.items() if not isinstance(kind, Share) and kind.most >= 5000
    }
    assert len(large) > 60
    for name, kind in large.items():
        assert kind.from_text("5,000", name) == kind.from_text("5000", name) == 5000
        if kind.counted:
            assert kind.from_text("5k", name) == 5000


def test_what_is_as_usual_is_no_part_of_the_command_and_errors_spell_fields_as_their_readers():
    fields = {"task": "inference", "model": "googlenet", "cloud": "aws", "pareto": True, "max_price": 1.5}
    words = "--task inference --model googlenet --pareto --max-price 1.5"
    assert options_of(from_values(Recommend, fields)) == words.split()
    with pytest.raises(UsageError) as refused:
        from_values(Recommend, {"task": "inference", "model": "x", "batch_size": 1.5})
    assert "--batch-size must be a whole number" in str(refused.value)
    assert "batch_size must be a whole number" in refused.value.render(str, str)
    assert "--" not in refused.value.render(str, str)


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_a_question_has_the_same_fields(kind):
    fields = kind.fields.values()
    over_http = {field.name for field in fields if field.where != "cli"}
    on_the_command_line = {field.option for field in fields if field.where != "http"}
    assert set(schema_of(kind)["properties"]) == over_http
    assert {parameter["name"] for parameter in parameters_of(kind)} == over_http
    assert {name for option in options_of_kind(kind) for name in option.opts} == on_the_command_line


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_has_a_help_of_its_own(kind):
    for field in kind.fields.values():
        assert field.help.endswith((".", "..", "..)")), field.name
    jsonschema.Draft202012Validator.check_schema(schema_of(kind))
