"""Every page says in full what it answers: network, precision, size of a sample."""

import pytest

PAGES = [
    "/?task=inference&model=yolov8",
    "/?task=inference&model=yolov8&target_throughput=99999999",
    "/predict?task=inference&model=yolov8&instance=g5.xlarge",
    "/compare?task=inference&model=yolov8&instance=g5.xlarge,g6.xlarge",
    "/compare?task=inference&model=yolov8&gpu=T4,L4",
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_says_what_a_name_was_taken_as_and_how_large_a_sample_is(page, path):
    text = page(path).text
    assert "yolov8s inference, fp32, images of 640 x 640 pixels (yolov8: taken as yolov8s)" in text


@pytest.mark.parametrize("path", [PAGES[0], PAGES[3]])
def test_it_says_so_in_chinese(page, path):
    text = page(f"{path}&lang=zh").text
    assert "图像 640 x 640 像素" in text
    assert "按 yolov8s 处理" in text
