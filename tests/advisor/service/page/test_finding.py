"""`/`: an answer under every address, whole without a script, about networks and language models alike."""

from urllib.parse import urlencode

import pytest

from advisor.service.page import question

QUESTION = "/?task=inference&model=googlenet&target_throughput=500"


def test_each_rejected_type_has_its_reason(page, client):
    asked = "/v1/recommend" + QUESTION[1:] + "&pareto=true"
    nearest = client.get(asked).json()["rejected"]
    every = client.get(f"{asked}&explain_rejected=true").json()
    assert len(nearest) == 10
    assert nearest == every["rejected"][:10]
    assert sum(every["rejected_counts"].values()) == len(every["rejected"])
    assert f"({len(every['rejected']):,} rejected)" in page(QUESTION).text
    whole = page(f"{QUESTION}&rejected=all").text
    assert all(f"{row['instance_type']} " in whole for row in every["rejected"])


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("target_throughput", "abc", "must be a number above 0"),
        ("confidence", "2", "must lie between 0.5 and 1"),
        ("region", "us-east-11", "did you mean"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(page, field, value, text):
    """422, the message in the answer's place and beside the field, the input kept."""
    result = page(f"/?task=inference&model=googlenet&{field}={value}", status=422)
    assert text in result.text
    wrong = result.all("input", name=field)[0]
    assert (wrong["aria-invalid"], wrong["value"]) == ("true", value)
    assert result.all("p", id=f"{field}-wrong")
    assert result.all("div", role="alert")


def test_what_cannot_be_answered_leads_to_what_can(page):
    result = page("/?task=inference&model=gogglenet&target_throughput=500", status=422)
    assert any("model=googlenet" in link["href"] for link in result.all("a"))
    assert "target_throughput=500" in str(result.all("a"))
    result = page("/?task=inference&model=googlenet&target_throughput=90000&gpu=T4")
    assert "Nothing on offer does this" in result.text
    ways = [link["href"] for link in result.all("a") if link.get("class") == "button"]
    changed = next(way for way in ways if "target_throughput" in way)
    assert "Nothing on offer" not in page(changed).text


def test_the_points_of_the_chart_are_links_and_stand_in_a_table(page, client):
    """Every spec of the document once, in a wide and in a narrow picture; each link answers."""
    document = client.get("/v1/recommend" + QUESTION[1:] + "&pareto=true").json()
    result = page(QUESTION)
    points = [point for point in result.all("a") if "aria-label" in point and "/h: lower" in str(point)]
    names = {point["aria-label"].partition(" at ")[0].rpartition(" x ")[2] for point in points}
    specs = [document["recommendation"], *document["alternatives"], *document["pareto"]]
    assert names == {spec["instance_type"] for spec in specs}
    assert len({point["href"] for point in points}) * 2 == len(points)
    assert page(points[-1]["href"]).all("h2", id="now-title")
    assert "recommended" in result.text
    assert "Pareto front" in result.text


@pytest.mark.parametrize(
    "question",
    [
        "task=inference&model=googlenet&target_throughput=100&precision=auto&cloud=aws&market=on-demand",
        "task=preprocessing&model=resnet50&target_throughput=3000&precision=auto",
        "task=training&model=resnet50&target_throughput=300&precision=fp32&memory_format=channels_last",
    ],
)
def test_a_link_about_a_spec_asks_it_as_it_runs(page, question):
    links = [link["href"] for link in page(f"/?{question}").all("a") if "/predict?" in link["href"]]
    assert len(links) > 2
    for link in links[:6]:
        assert page(link).all("h2", id="now-title"), link


def test_a_part_is_the_answer_alone_and_markup_in_words_is_text(page):
    part = page(f"{QUESTION}&part=answer")
    assert not part.all("html")
    assert part.all("div")[0]["data-said"].startswith("g4dn.2xlarge at $0.752 an hour")
    result = page("/?task=inference&model=%3Cscript%3Ealert(1)%3C/script%3E", status=422)
    assert all("src" in item for item in result.all("script"))
    assert "<script>alert" not in result.html


def test_a_served_model_is_drawn_and_leads_to_its_types_side_by_side(page):
    served = page(f"/?{urlencode(ASKED)}")
    words = ('class="picture wide-only"', "format=compose", "format=ray")
    assert [word in served.html for word in words] == [True, True, False]
    (href,) = [link["href"] for link in served.all("a") if "/compare?" in link["href"]]
    assert len(page(href).all("th", scope="col")) >= 2


def test_no_inline_script_and_no_style_but_the_pages_own(page):
    """The content security policy allows nothing else."""
    for address in (QUESTION, "/predict", "/compare", "/measurements", "/sweeps", "/login"):
        result = page(address)
        assert all("src" in item for item in result.all("script"))
        assert len(result.all("style")) == 1
        names = {name for _, item in result.tags for name in item}
        assert not {name for name in names if name == "style" or name.startswith("on")}
        assert result.open == []


ASKED = {
    "task": "generation",
    "model": "meta-llama/Llama-3.1-8B",
    "users": "8",
    "allow_extrapolation": "true",
}


@pytest.mark.parametrize("path", ["", "/compare"])
def test_addresses_of_earlier_versions_lead_here(service, path):
    moved = service.get(f"/language{path}", params=ASKED, follow_redirects=False)
    assert moved.status_code in (302, 307)
    assert moved.headers["location"] == f"{path or '/'}?{urlencode(ASKED)}"


@pytest.mark.parametrize(
    ("words", "task"),
    [
        ("model=meta-llama/Llama-3.1-8B", "generation"),
        ("model=Qwen/Qwen3-8B&task=training&precision=amp&target_throughput=500", "finetuning"),
        ("model=resnet50&task=generation&users=8", "inference"),
        ("model=gpt2", "inference"),
        ("model=gpt2&task=generation&users=2&input_tokens=100&output_tokens=50", "generation"),
    ],
)
def test_one_field_names_networks_and_language_models(page, words, task):
    result = page(f"/?{words}")
    (chosen,) = [entry["value"] for entry in result.all("input", name="task") if "checked" in entry]
    assert chosen == task
    assert result.all("h2", id="pick-title")


def test_a_page_that_takes_long_begins_at_once(page, client, monkeypatch):
    """Its form and a skeleton come first, and the answer is as it would have been."""
    whole = page(QUESTION)
    monkeypatch.setattr(question, "_AT_ONCE_SECONDS", 0.0)
    streamed = page(QUESTION)
    assert streamed.all("div", **{"class": "skeleton card"})
    assert not whole.all("div", **{"class": "skeleton card"})
    assert streamed.all("h3") == whole.all("h3")
    late = page("/?task=inference&model=googlenet&target_throughput=abc")
    assert "must be a number above 0" in late.text
