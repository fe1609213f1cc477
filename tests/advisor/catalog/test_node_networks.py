"""The network between nodes: every row is of a type in the catalogue, and the unknown stays so."""

from advisor.catalog import load_catalog
from advisor.catalog.node_networks import _networks, node_network


def test_every_row_names_a_type_with_a_gpu_and_says_who_says_so():
    catalog = load_catalog()
    wrong = [
        name
        for (cloud, name), network in _networks().items()
        if not catalog.instance(name, cloud).gpu_count or not network.source
    ]
    assert wrong == []


def test_the_rate_is_the_baseline_and_unknown_types_have_none():
    catalog = load_catalog()
    assert node_network(catalog.instance("g5.xlarge", "aws")).gbit_per_second == 2.5  # not its 10
    assert node_network(catalog.instance("m5.large", "aws")) is None
