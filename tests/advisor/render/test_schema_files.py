"""The schemas that ship are those of the parts of documents."""

import jsonschema
import pytest

from advisor.infra.build.documents.schemas import FOLDER, documents, parts, written
from tests.advisor.render.schemas import schema_of


def test_the_schemas_that_ship_are_what_the_parts_give():
    texts = {path.name.removesuffix(".schema.json"): path.read_text() for path in FOLDER.iterdir()}
    assert texts == {name: written(part) for name, part in documents().items()}


@pytest.mark.parametrize("name", documents())
def test_each_is_a_schema_that_needs_no_other_file(name):
    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert '"$ref":"advisor' not in written(documents()[name])


def test_no_part_is_left_over():
    used = {part for name, whole in documents().items() for part in (whole, *schema_of(name)["$defs"])}
    assert used == set(parts())
