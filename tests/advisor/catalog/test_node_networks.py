"""The network between nodes: of every AWS type with a GPU, never more than lasts."""

from advisor.catalog import load_catalog
from advisor.infra.build.catalog.tables import read_source

CATALOG = load_catalog()
TOLD = {row["instance_type"]: row for row in read_source("catalog/aws_networks.csv")}


def types_with_gpus(cloud):
    return [instance for instance in CATALOG.instances(cloud) if instance.gpu_count]


def test_every_type_of_aws_with_a_gpu_has_one_and_says_who_says_so():
    result = types_with_gpus("aws")
    assert [
        instance.name for instance in result if instance.network is None or not instance.network.source
    ] == []
    assert {instance.name for instance in result} == TOLD.keys()


def test_no_type_is_promised_more_than_its_baseline_or_a_burst():
    for gpu in types_with_gpus("aws"):
        assert gpu.network.gbit_per_second <= float(TOLD[gpu.name]["baseline_gbit_per_second"])
    assert CATALOG.instance("g5.xlarge", "aws").network.gbit_per_second == 2.5  # not its 10
    assert CATALOG.instance("p3.16xlarge", "aws").network.gbit_per_second == 5  # not its "25"
    assert CATALOG.instance("g6e.48xlarge", "aws").network.gbit_per_second == 400  # not 4 x 400


def test_several_cards_are_told_apart_from_one_fast_card():
    networks = {name: CATALOG.instance(name, "aws").network for name in ("p4d.24xlarge", "g7e.12xlarge")}
    assert [network.gbit_per_second for network in networks.values()] == [400, 400]
    assert [network.takes_several_cards for network in networks.values()] == [True, False]


def test_other_clouds_have_what_their_documents_tell_and_cpu_types_train_alone():
    assert CATALOG.instance("ecs.gn7-c13g1.26xlarge", "alibaba").network.gbit_per_second == 30
    assert CATALOG.instance("g2-standard-4", "gcp").network is None
    assert CATALOG.instance("m5.large", "aws").network is None
