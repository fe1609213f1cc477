"""What the service answers is what the command line prints, in pages and once."""

import json
import re

import pytest

from advisor.answers.listing import page_of, query_of
from advisor.questions.listings import Offers
from advisor.questions.reading import from_values
from tests.alike import alike

QUESTION = {"task": "inference", "model": "googlenet"}
SERVING = {"task": "generation", "model": "meta-llama/Llama-3.1-8B", "users": 8, "allow_extrapolation": True}


@pytest.fixture
def as_typed(context, monkeypatch, ask):
    """The same words as a command's options; returns (exit code, document)."""
    monkeypatch.setattr("advisor.answers.ask.load_context", lambda *_, **__: context)

    def command(name, words):
        typed = [part for word, value in words.items() for part in _option(word, value)]
        code, out, _ = ask(name, *typed, "-o", "json")
        return code, json.loads(out) if out else None

    return command


def _option(word, value):
    option = f"--{word.replace('_', '-')}"
    if value is True:
        return [option]
    values = value if isinstance(value, list) else [value]
    return [part for item in values for part in (option, str(item))]


MANY = {"precision": "amp", "market": "spot", "region": "us-west-2", "max_results": 3, "explain": True}


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("recommend", QUESTION | MANY | {"target_throughput": 800.5, "gpu": "T4,L4", "vcpus": "4..16"}),
        ("recommend", QUESTION | {"epochs": 2.5}),
        ("recommend", SERVING),
        ("predict", QUESTION | {"instance": "g5.2xlarge", "vcpus": 4, "memory": "8GiB", "explain": True}),
        ("predict", QUESTION | {"instance": "nope"}),
        ("compare", QUESTION | {"instance": ["g4dn.xlarge", "c5.xlarge"]}),
        ("compare", QUESTION | {"gpu": "T4,V100", "baseline": "L4"}),
        ("compare", QUESTION | {"instance": ["g4dn.xlarge"]}),
    ],
)
def test_an_answer_is_the_command_lines(service, as_typed, name, question):
    """One answer, or one refusal; a question that nothing meets is an answer (exit 3). The command's can be
    rendered in other languages later, and so holds its sentences as messages too."""
    code, document = as_typed(name, question)
    answer = service.post(f"/v1/{name}", json=question)
    if document is None:
        assert (answer.status_code, code in (2, 3, 4, 5)) == (422, True), answer.text
    else:
        document.pop("messages", None)
        assert alike(answer.json(), document)


@pytest.mark.parametrize(
    ("path", "typed"),
    [
        ("memory?model=resnet50&batch_size=64&gpu=T4", "memory --model resnet50 --batch-size 64 --gpu T4"),
        ("networks?search=densenet", "networks densenet"),
        ("gpus?gpu=24GiB..&sort_by=memory_mib", "gpus --gpu 24GiB.. --sort-by memory_mib"),
        ("catalog/g4dn.xlarge?market=spot", "catalog show g4dn.xlarge --market spot"),
        ("catalog?cloud=aws&gpu=T4&limit=1000", "catalog list --cloud aws --gpu T4"),
    ],
)
def test_what_is_known_is_told_alike(service, answer, path, typed):
    assert service.get(f"/v1/{path}").json() == answer(*typed.split())


def test_a_word_that_is_null_is_left_out_and_another_question_has_another_etag(service):
    left_out = service.post("/v1/predict", json={**QUESTION, "instance": "g4dn.xlarge"}).json()
    null = {**QUESTION, "instance": "g4dn.xlarge", "region": None, "batch_size": None}
    assert service.post("/v1/predict", json=null).json() == left_out
    others = ("", "&limit=3", "&market=spot", "&instance=g4dn.xlarge")
    etags = {service.get(f"/v1/catalog?gpu=T4{more}").headers["etag"] for more in others}
    assert len(etags) == 4


ON_INSTANCE = {"task": "inference", "model": "googlenet", "instance": "g4dn.xlarge", "disk": "gp3:500GiB"}


@pytest.fixture
def predicted(service):
    def ask(**words):
        answer = service.post("/v1/predict", json=ON_INSTANCE | words)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


def test_a_curve_says_what_each_question_alone_would(predicted):
    """Batch and disk are held, so that only what is varied moves."""
    fixed, disks = {"batch_size": 32}, ["gp3:500GiB", "st1:500GiB"]
    varied = {"vcpus": [1, 3, 8], "memory": ["8GiB", "64GiB"], "disk": disks}
    curve = predicted(**fixed, curve=varied)["curve"]
    for point in curve["vcpus"]:
        alone = predicted(**fixed, vcpus=point["vcpus"])
        assert point["throughput"] == pytest.approx(alone["predicted"]["throughput"])
        expected = (alone["physical_cores"], alone["bottleneck"])
        assert (point["physical_cores"], point["bottleneck"]) == expected
    for point in curve["disk"]:
        alone = predicted(**fixed | {"disk": point["order"]})
        assert point["throughput"] == pytest.approx(alone["predicted"]["throughput"])
    assert [point["memory_mib"] for point in curve["memory"]] == [8192, 65536]


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        ({}, "some of vcpus, memory, disk"),
        ([1], "takes an object"),
        ({"vcpus": []}, "a list of 1 to 256"),
        ({"vcpus": [1.5]}, "whole number"),
        ({"memory": [4]}, "must be a text"),
        ({"disk": ["gp3,io2"]}, "one disk a point"),
        ({"disk": ["nope:1TiB"]}, "unknown disk"),
        ({"vcpus": [1] * 200, "memory": ["1GiB"] * 100}, "up to 256 points, not 300"),
    ],
)
def test_a_curve_that_cannot_be_drawn_is_refused(refused, curve, said):
    assert said in refused(422, "/v1/predict", ON_INSTANCE | {"curve": curve})["detail"]


NEXT = re.compile(r'<([^>]*)>; rel="next"')


def test_the_pages_are_the_whole_list_without_a_gap_and_lead_back_with_their_question_alone(
    service, context, refused
):
    path, offers = "/v1/catalog?cloud=any&gpu=L4&market=spot&limit=37", []
    while path:
        answer = service.get(path)
        assert answer.status_code == 200, answer.text
        offers += answer.json()["offers"]
        result = NEXT.search(answer.headers["link"])
        path = result[1] if result else None
    query = query_of(from_values(Offers, {"cloud": "any", "gpu": "L4", "market": "spot"}))
    assert offers == page_of(context.catalog, query).document(context.catalog)["offers"]
    assert len(offers) == int(answer.headers["x-total-count"]) > 37
    first = service.get("/v1/catalog?gpu=T4&limit=2")
    assert "prev" not in first.headers["link"]
    path = NEXT.search(first.headers["link"])[1]
    second = service.get(path)
    back = re.search(r'<([^>]*)>; rel="prev"', second.headers["link"])[1]
    assert service.get(back).json() == first.json()
    assert "another question" in refused(422, f"{path}&market=spot")["detail"]


@pytest.mark.parametrize("cursor", ["abc", "AAAA", "x:1", "%F0%9F%98%80", "MTox" * 60])
def test_a_cursor_that_nobody_gave_is_refused(refused, cursor):
    assert refused(422, f"/v1/catalog?cursor={cursor}")["field"] == "cursor"


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/catalog?gpu=T4", "/v1/catalog/g5.xlarge", "/v1/networks", "/v1/gpus", "/openapi.json"),
        *("/v1/recommend?task=inference&model=googlenet", "/v1/memory?model=vgg16"),
    ],
)
def test_what_has_not_changed_is_not_sent_again(service, path):
    answer = service.get(path)
    etag = answer.headers["etag"]
    assert re.fullmatch(r'"[0-9a-f]{32}"', etag), "a strong one"
    assert "max-age" in answer.headers["cache-control"]
    for text in (etag, f'"other", W/{etag}', "*"):
        again = service.get(path, headers={"If-None-Match": text})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert service.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
