"""What runs a network, on what input and data: options that mean something, and others refused."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from advisor.answers.context import Context, profile_of
from advisor.answers.networks import predicted
from advisor.catalog import load_catalog
from advisor.domain import DataKind, Precision
from advisor.models.performance import load_model
from advisor.models.performance.networks import bundled_networks
from advisor.questions.network import Predict, Recommend
from advisor.questions.reading import from_link, from_values, question_document, question_from
from advisor.questions.settled import parse_input, settled_network
from advisor.questions.values import DATASETS, dataset_for

MODEL, CATALOG = load_model(), load_catalog()
PHOTOS = MODEL.table["resnet50"]
# What such networks take, with ResNet-50's operations.
READS = {"name": "reader", "input": "seq:128", "input_bytes": 1024.0, "sample": "sequence"}
TEXT = replace(PHOTOS, data=DataKind.TOKENS, **READS)
DENOISES = {"name": "denoiser", "input": "4x64x64", "input_bytes": 65_536.0, "sample": "step"}
TENSORS = replace(PHOTOS, data=DataKind.TENSOR, **DENOISES)
ASKED = {"model": "resnet50", "task": "training", "batch_size": 32}


def settled(facts=PHOTOS, **more):
    table = MODEL.table if facts is PHOTOS else bundled_networks().with_own(facts)
    question = from_values(Recommend, {**ASKED, "model": facts.name, **more})
    return settled_network(question, table, CATALOG)


@pytest.mark.parametrize("name", ["ResNet50", "torchvision/resnet50", "resnet50"])
def test_a_network_answers_to_all_its_names(name):
    question = from_values(Recommend, {**ASKED, "model": name})
    assert settled_network(question, MODEL.table, CATALOG).network == "resnet50"


@pytest.mark.parametrize(
    ("facts", "size", "texts"),
    [
        (PHOTOS, "3x384x384", ("384", "384px", " 3X384x384 ")),
        (PHOTOS, "3x384x512", ("384x512",)),
        (TEXT, "seq:384", ("384", "seq 384", "seq:0384")),
        (TENSORS, "4x96x96", ("4x96x96",)),
    ],
)
def test_an_input_is_read_as_the_network_takes_it(facts, size, texts):
    assert {parse_input(text, facts) for text in texts} == {size}


def test_another_input_is_another_amount_of_work_and_the_own_one_no_other():
    small, large = (MODEL.table.find("resnet50", size) for size in ("3x160x160", "3x320x320"))
    assert large.gmacs == pytest.approx(4 * small.gmacs, rel=0.1)
    assert large.input_bytes == 4 * small.input_bytes
    assert settled(input="384").input == "3x384x384"
    assert settled(input="224").input is None
    assert settled(TEXT, input="seq:128").input is None


def test_a_data_set_is_as_the_network_takes_it():
    assert settled(MODEL.table["cifar10_cnn"]).dataset.name == "cifar10"
    assert settled(MODEL.table["yolov5s"]).dataset.name == "coco"
    text = dataset_for("ptb", TEXT)
    assert (text.sample, text.samples) == ("sequence", DATASETS["ptb"].samples // 128)
    assert text.total_mib == pytest.approx(DATASETS["ptb"].total_mib, rel=1e-3)
    words = dataset_for("ptb", replace(TEXT, sample="token"))
    assert words.samples == DATASETS["ptb"].samples
    assert dataset_for(None, TENSORS).bytes_per_sample == TENSORS.input_bytes
    assert dataset_for("librispeech", TENSORS).samples == 281_241


def test_a_text_of_ones_own_is_counted(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("one two three four five six seven\n" * 64)
    assert dataset_for(str(file), TEXT, profile=profile_of).samples == 64 * 8 // 128


def predicted_of(facts, **more):
    table = bundled_networks().with_own(facts)
    model = replace(MODEL, table=table, card_mib_of=lambda _: 4000.0)
    values = {**ASKED, "model": facts.name, "instance": "g5.xlarge", **more}
    return predicted(Context(CATALOG, model), from_values(Predict, values))


def test_text_is_not_decoded_and_crosses_the_bus_as_numbers():
    photographs, text = predicted_of(replace(PHOTOS, name="seer")), predicted_of(TEXT)
    rates = [answer.result.prediction.stage_rates for answer in (photographs, text)]
    assert rates[1]["host"] > 5 * rates[0]["host"]
    assert rates[1]["transfer"] > 100 * rates[0]["transfer"]
    document = json.loads(json.dumps(text.document()))
    assert document["predicted"]["unit"] == "sequences/s"
    assert document["request"]["dataset"]["kind"] == "tokens"


def test_all_precisions_are_asked_for_and_trials_know_their_own():
    for precision in Precision:
        assert settled(precision=str(precision)).can_be_measured == (precision is not Precision.FP16)
    assert not settled(stack="compile").can_be_measured


QUESTIONS = [
    "task=inference&model=googlenet",
    "task=inference&model=googlenet&target_throughput=500&confidence=0.99&allow_extrapolation=true"
    "&pareto=true&max_results=3&horizon_hours=24&max_latency_ms=40.5&precision=amp&stack=compile&input=384"
    "&memory_format=channels_last&gpu=A10G,24GiB..,cc8.0..&vcpus=4..16&memory=..64GiB&quota=G=8,P=0"
    "&disk=gp3:500GiB:6000iops:250MiB/s&max_gpus=1&max_count=4&max_price=3.25&accelerated_only=true",
    "task=training&model=resnet50&epochs=90&max_hours=72&max_cost=500&max_first_epoch_hours=2"
    "&disk=gp3,local&cloud=any&market=spot&batch_size=64&dataset=coco&tf32=off",
    "task=training&model=resnet50&samples=10000000&region=eu-west-1",
]


def request(link):
    return settled_network(from_link(Recommend, link.encode()), MODEL.table, CATALOG)


@pytest.mark.parametrize("link", QUESTIONS)
def test_a_request_survives_its_document(link):
    document = json.loads(json.dumps(question_document(request(link))))
    read = question_from(document)
    names = ("dataset", "disk", "disk_types", "vcpus", "compute_capability", "vcpu_quota", "market")
    assert [getattr(read, name) for name in names] == [getattr(request(link), name) for name in names]
    assert json.loads(json.dumps(question_document(read))) == document


def test_what_an_older_document_lacks_is_as_usual():
    document = question_document(request(QUESTIONS[0]))
    newer = ("horizon_hours", "max_results", "allow_extrapolation", "pareto", "stack")
    older = {name: value for name, value in document.items() if name not in newer}
    assert question_document(question_from(older)) == document
