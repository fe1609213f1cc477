"""Facts of networks are read one network at a time."""

import json

import pytest

from models.performance.bundled import FOLDER
from models.performance.networks import BUNDLED, bundled_networks, table_from


def test_the_lines_hold_what_the_whole_file_holds():
    text = (FOLDER / BUNDLED).read_text()
    whole, by_line = json.loads(text), table_from(text)
    assert {name: json.loads(one) for name, one in by_line["networks"].items()} == whole["networks"]
    assert {**by_line, "networks": whole["networks"]} == whole


def test_every_network_that_ships_can_be_decoded():
    table = bundled_networks()
    assert all(table[name].operations for name in table.names)


@pytest.mark.parametrize("text", ["", "{", '{"schema":1}', "[]\n\n\n", '{"networks":{\n"a":{}\n}}'])
def test_another_text_is_no_table(text):
    with pytest.raises((ValueError, KeyError)):
        table_from(text)["operation_classes"]
