"""The page about language models: its form, its answer, and what is wrong with a question."""

from urllib.parse import urlencode

import pytest

ASKED = {
    "task": "generation",
    "model": "meta-llama/Llama-3.1-8B",
    "users": "8",
    "allow_extrapolation": "true",
}


def test_an_answer_has_its_facts_its_chart_and_its_files(service):
    page = service.get("/language", params=ASKED)
    assert page.status_code == 200
    for said in (
        "TTFT (time to the first token)",
        "Latency against throughput",
        "Price against throughput",
        'class="picture wide-only"',
        "in flight: TTFT",
        "format=compose",
    ):
        assert said in page.text
    assert "format=ray" not in page.text


def test_fine_tuning_is_asked_in_the_same_form(service):
    words = {"task": "finetuning", "model": ASKED["model"], "tokens": "1e8", "allow_extrapolation": "true"}
    page = service.get("/language", params=words)
    assert page.status_code == 200
    assert "GiB activations" in page.text


@pytest.mark.parametrize("wrong", [{"batch_size": "8"}, {"precision": "fp32"}, {"model": "none"}])
def test_what_is_wrong_stands_where_the_answer_would_be(service, wrong):
    page = service.get("/language", params={**ASKED, **wrong})
    assert page.status_code == 422
    assert 'role="alert"' in page.text


def test_the_first_page_leads_questions_about_language_models_here(service):
    moved = service.get("/", params=ASKED, follow_redirects=False)
    assert moved.status_code in (302, 307)
    assert moved.headers["location"] == f"/language?{urlencode(ASKED)}"


BESIDE = "model=meta-llama/Llama-3.1-8B&users=8&instance=g6.xlarge&instance=g5.xlarge"


def test_instances_stand_side_by_side_as_the_api_compares_them(page, client):
    """Price, rate and times of each; of the two, the faster one is best in every time."""
    result = page(f"/language/compare?{BESIDE}&instance=g6e.xlarge")
    rows = client.get(f"/v1/compare?task=generation&{BESIDE}&instance=g6e.xlarge").json()["rows"]
    assert len(result.all("th", scope="col")) == len(rows) == 3
    for row in rows:
        assert f"${row['price']['total_usd_per_hour']:.3f}" in result.text
        assert f"{row['relative']:.2f}" in result.text
    assert len(result.all("td", **{"class": "best"})) >= 5


def test_an_answer_leads_to_its_types_side_by_side(page):
    result = page(f"/language?{urlencode(ASKED)}")
    (href,) = [link["href"] for link in result.all("a") if "/language/compare" in link["href"]]
    assert len(page(href).all("th", scope="col")) >= 2


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("instance=g5.xlarge", "instance"),
        ("instance=g5.xlarg,g6.xlarge", "instance"),
        ("instance=g5.xlarge,g6.xlarge&users=none", "users"),
    ],
)
def test_what_cannot_be_compared_is_told_at_its_field(page, words, field):
    result = page(f"/language/compare?model=meta-llama/Llama-3.1-8B&{words}", status=422)
    assert result.all("input", name=field)[0]["aria-invalid"] == "true"
