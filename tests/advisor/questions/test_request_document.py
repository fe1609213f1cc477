"""The document of a request is the whole question: read back, it is the same request."""

from __future__ import annotations

import json

import pytest

from advisor.catalog import load_catalog
from advisor.models.performance import load_model
from advisor.questions.documents import question_document, question_from
from advisor.questions.network import Recommend
from advisor.questions.reading import from_link
from advisor.questions.settled import settled_network

MODEL, CATALOG = load_model(), load_catalog()
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
