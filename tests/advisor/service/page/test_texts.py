"""What each page says, in both languages: the text of a golden file, which changes only when we mean it."""

from pathlib import Path

import pytest

from tests.alike import assert_golden_text

GOLDEN = Path(__file__).parents[3] / "golden" / "pages"
LLAMA = "model=meta-llama/Llama-3.1-8B"
PAGES = {
    "answer": "/?task=inference&model=googlenet&target_throughput=500",
    "answer-zh": "/?task=inference&model=googlenet&target_throughput=500&lang=zh-CN",
    "nothing-answers": "/?task=inference&model=yolov8&target_throughput=99999999",
    "run-on-spot": "/?task=training&model=resnet50&epochs=10&gpu=T4&market=spot",
    "serving": f"/?task=generation&{LLAMA}&users=8&max_ttft_ms=2000&allow_extrapolation=true",
    "serving-nothing": f"/?task=generation&{LLAMA}&users=8&max_price=0.1",
    "fine-tuning": f"/?task=finetuning&{LLAMA}&tokens=1e8&market=spot&allow_extrapolation=true",
    "what-if": "/predict?task=training&model=resnet50&instance=g5.xlarge&vcpus=16",
    "what-if-closed": "/predict?task=inference&model=yolov8&cloud=gcp&instance=a3-highgpu-1g",
    "instances": "/compare?task=inference&model=yolov8&cloud=gcp&instance=a3-highgpu-1g,a2-highgpu-1g",
    "gpus": "/compare?task=training&model=resnet50,vgg16&gpu=T4,L4&batch_size=256&baseline=RTX8000",
    "specs": "/compare?task=training&model=resnet50&spec=g5.xlarge gp3:500GiB,g6.xlarge local",
    "models-side-by-side": f"/compare?{LLAMA}&users=8&instance=g6.xlarge,g5.xlarge",
    "catalog": "/catalog?cloud=any&gpu=L4",
    "type": "/catalog/g5.xlarge",
    "measurements": "/measurements?model=vgg16",
    "sweeps": "/sweeps",
    "login": "/login",
}


@pytest.mark.vector
@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_it_said(page, monkeypatch, name):
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-28")
    lines = (" ".join(text.split()) for text in page(PAGES[name]).texts)
    assert_golden_text(GOLDEN / f"{name}.txt", "\n".join(filter(None, lines)) + "\n")
