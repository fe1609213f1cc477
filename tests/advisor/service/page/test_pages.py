"""What if, compare, the catalogue, measurements, sweeps and the login as HTML."""

import pytest

from advisor.domain import Status
from advisor.service.page.catalog import POPULAR
from advisor.service.page.frame import static_path
from advisor.service.page.measurements import sweep_text
from tests.builders import keep
from tests.sweeps.builders import measurement, row, trial

SPEC = "/predict?task=training&model=resnet50&instance=g5.xlarge"
OURS = {"Sec-Fetch-Site": "same-origin"}


def test_a_slider_has_what_the_instance_has_and_an_unknown_instance_is_told_at_its_field(page):
    result = page(f"{SPEC}&memory=8GiB")
    assert result.all("select", id="what-memory")
    assert any(element.get("value") == "8GiB" and "selected" in element for element in result.all("option"))
    result = page("/predict?task=training&model=resnet50&instance=g5.xlarg", status=422)
    assert result.all("input", name="instance")[0]["aria-invalid"] == "true"
    assert any("instance=g5.xlarge" in link["href"] for link in result.all("a"))


def test_compared_instances_stand_on_one_scale(page, client):
    question = "/compare?task=training&model=resnet50&instance=g4dn.xlarge&instance=g5.xlarge"
    result, rows = page(question), client.get(f"/v1{question}").json()["rows"]
    assert f"{rows[1]['relative']:.2f}" in result.text
    widths = [float(entry["width"][:-1]) for entry in result.all("rect", **{"class": "range"})]
    spans = [entry["predicted"]["throughput"] for entry in rows]
    ratio = (spans[1]["upper"] - spans[1]["lower"]) / (spans[0]["upper"] - spans[0]["lower"])
    assert abs(widths[1] / widths[0] - ratio) < 0.02


def test_several_language_models_stand_beside_each_other(page):
    models = "Qwen/Qwen3-8B,mistralai/Mistral-7B-v0.1"
    shown = page(f"/compare?task=generation&model={models}&users=4&instance=g5.xlarge,g6.xlarge").text
    assert all(shown.count(model) > 1 for model in models.split(","))


NETWORK, LANGUAGE_MODEL = "task=training&model=resnet50", "model=meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(
    ("words", "field", "text"),
    [
        (f"{NETWORK}&spec=g5.xlarge", "spec", "takes two to 4 specs"),
        (f"{NETWORK}&spec=g5.xlarge,g6.xlarge&instance=g5.xlarge", "spec", "compared without instances"),
        (f"{NETWORK}&spec=g5.xlarge a b c d,g6.xlarge", "spec", "no spec"),
        (f"{NETWORK}&spec=g5.xlarg,g6.xlarge", "spec", "unknown instance type"),
        (f"{LANGUAGE_MODEL}&instance=g5.xlarge", "instance", ""),
        (f"{LANGUAGE_MODEL}&instance=g5.xlarg,g6.xlarge", "instance", ""),
        (f"{LANGUAGE_MODEL}&instance=g5.xlarge,g6.xlarge&users=none", "users", ""),
    ],
)
def test_what_cannot_be_compared_is_told_at_its_field(page, words, field, text):
    result = page(f"/compare?{words}", status=422)
    assert text in result.text
    assert result.all("input", name=field)[0]["aria-invalid"] == "true"


def test_the_catalogue_leads_to_a_type_and_to_what_it_does(page, client):
    listed = page("/catalog?cloud=aws&region=us-east-1&market=on-demand&gpu=A10G")
    (href,) = [link["href"] for link in listed.all("a") if link["href"].startswith("/catalog/g5.xlarge")]
    shown = page(href)
    prices = client.get("/v1/catalog/g5.xlarge").json()["prices"]
    assert len(prices) > 10
    assert all(region in shown.text for region in prices)
    rates = [link["href"] for link in shown.all("a") if "/predict?" in link["href"]]
    assert len({link.partition("model=")[2].partition("&")[0] for link in rates}) == len(POPULAR)
    assert page(rates[0]).all("h2", id="now-title")


def test_a_sweep_that_is_wrong_keeps_its_form_and_lists_are_shown_as_the_form_says_them(client):
    words = {"networks": "alexnet", "tasks": "inference", "vcpus": "many", "memory": "2GiB"}
    response = client.post("/sweeps", data=words, headers=OURS)
    assert response.status_code == 422
    assert 'value="many"' in response.text
    assert 'role="alert"' in response.text
    # The API takes `[0.5, 1]`; nobody on the page should read Python's way to write it.
    question = {"networks": ["googlenet"], "vcpus": [0.5, 1], "disks": "gp3", "on": "here"}
    assert sweep_text({"asked": question}) == "googlenet, 0.5,1, gp3"


def test_what_is_unknown_gets_the_nearest_and_a_link_to_nowhere_leads_back(page, client):
    assert "g5.xlarge" in page("/catalog/g5.xlarg", status=422).text
    assert "there is no sweep" in page("/sweeps/20260101T000000-00000000", status=404).text
    result = page("/answer?lang=zh-CN", status=404, Accept="text/html,*/*")
    assert "没有这个页面" in result.text
    assert any(link["href"].startswith("/?lang=") for link in result.all("a"))
    for path, accepted in (("/answer", "*/*"), ("/v1/answer", "text/html")):
        response = client.get(path, headers={"Accept": accepted})
        assert (response.status_code, response.json()["type"]) == (404, "urn:advisor:problem:not-found")


def test_a_theme_that_was_chosen_is_rendered(client):
    client.cookies.clear()
    assert 'data-theme="dark"' in client.get("/?theme=dark").text
    assert 'data-theme="dark"' in client.get("/compare").text
    client.cookies.clear()
    assert static_path("app.js") in client.get("/compare").text


def test_measurements_show_their_spread_are_exported_as_filtered_and_long_names_are_cut(page, client):
    keep(*(row(size, step_seconds=(0.1, 0.11, 0.12) * 10) for size in (512.0, 513.0)))
    keep(row(514.0, status=Status.FAILED, reason="no disk left", step_seconds=()))
    result = page("/measurements")
    assert len(result.all("svg", **{"class": "box"})) == 2
    assert "no disk left" in result.text
    assert "Nothing is measured" in page("/measurements?model=vgg16").text
    keep(measurement())
    result = page("/measurements?model=googlenet&lang=en&cursor=0")
    hrefs = [link["href"] for link in result.all("a", **{"class": "button small"})]
    assert hrefs == [f"/v1/measurements/export?model=googlenet&format={name}" for name in ("jsonl", "csv")]
    assert client.get(hrefs[0]).status_code == 200
    # Imports take what a client calls its network; a page of a megabyte would help nobody.
    long = "n" * 50_000
    keep(measurement(trial=trial(network=long)))
    result = page(f"/measurements?task={trial().workload.task}")
    assert "n" * 50 in result.text
    assert "n" * 200 not in result.text
