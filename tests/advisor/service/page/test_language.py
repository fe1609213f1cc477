"""The page about language models: its form, its answer, and what is wrong with a question."""

from urllib.parse import urlencode

import pytest

ASKED = {"task": "generation", "model": "meta-llama/Llama-3.1-8B", "users": "8",
         "allow_extrapolation": "true"}  # fmt: skip


def test_an_answer_has_its_facts_its_chart_and_its_files(service):
    page = service.get("/language", params=ASKED)
    assert page.status_code == 200
    for said in ("TTFT (time to the first token)", "Latency against throughput",
                 "Price against throughput", 'class="picture wide-only"', "in flight: TTFT",
                 "format=compose"):  # fmt: skip
        assert said in page.text
    assert "format=ray" not in page.text


def test_the_page_speaks_chinese(service):
    page = service.get("/language", params={**ASKED, "lang": "zh-CN"})
    assert "延迟与吞吐量" in page.text
    assert "哪个实例服务这个语言模型" in page.text


def test_fine_tuning_is_asked_in_the_same_form(service):
    words = {"task": "finetuning", "model": ASKED["model"], "tokens": "1e8",
             "allow_extrapolation": "true"}  # fmt: skip
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
