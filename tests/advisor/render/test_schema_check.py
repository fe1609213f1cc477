"""The schemas that ship, and saved documents held to them as the library does."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from advisor.answers.reporting.saved import first_fault
from advisor.infra.build.documents.schemas import FOLDER, documents, parts, written
from tests.advisor.render.schemas import schema_of
from tests.advisor.render.sizing.reports import golden_report, validator


def shortened(value):
    """Small enough to be spoiled again and again."""
    if isinstance(value, dict):
        return {name: shortened(item) for name, item in value.items()}
    return [shortened(item) for item in value[:2]] if isinstance(value, list) else value


SMALL = shortened(golden_report())
VALIDATOR = validator()
ODD = st.sampled_from([None, True, 0, -1, 1.5, "", "x", [], {}, [1], {"a": 1}])


def places(value, path=()):
    """Every place in a document."""
    yield path
    for name, item in value.items() if isinstance(value, dict) else ():
        yield from places(item, (*path, name))
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield from places(item, (*path, index))


PLACES = [path for path in places(SMALL) if path]


@given(st.sampled_from(PLACES), ODD, st.booleans())
def test_what_the_library_refuses_is_refused_here(path, odd, leaves_out):
    spoiled = copy.deepcopy(SMALL)
    inside = spoiled
    for name in path[:-1]:
        inside = inside[name]
    if leaves_out:
        del inside[path[-1]]
    else:
        inside[path[-1]] = odd
    assert (first_fault(spoiled, "advisor.report/1") is None) == VALIDATOR.is_valid(spoiled)


def test_a_fault_is_told_with_its_place_within_one_of_several_shapes_too():
    spoiled = copy.deepcopy(SMALL)
    workload = spoiled["workloads"][0]
    workload["recommendation"]["recommendation"]["price"]["usd_per_hour"] = "x"
    fault = first_fault(spoiled, "advisor.report/1")
    assert str(fault).startswith("$.workloads[0].recommendation.recommendation.price.usd_per_hour: ")
    workload["answer"]["status"] = "maybe"
    fault = first_fault(spoiled, "advisor.report/1")
    assert fault == '$.workloads[0].answer.status: this is not one of "answered" or "nothing_fits"'


def test_the_schemas_that_ship_are_what_the_parts_give_and_no_part_is_left_over():
    texts = {path.name.removesuffix(".schema.json"): path.read_text() for path in FOLDER.iterdir()}
    assert texts == {name: written(part) for name, part in documents().items()}
    used = {part for name, whole in documents().items() for part in (whole, *schema_of(name)["$defs"])}
    assert used == set(parts())
