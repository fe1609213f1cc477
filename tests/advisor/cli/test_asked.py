"""The first lines of every answer say what was asked: the network that a name was taken as, the
precision, and how large a sample is."""

import pytest

from advisor.models.performance.network_table import network_table

pytestmark = pytest.mark.vector

PLACES = [("recommend",), ("predict", "--instance", "g5.xlarge"), ("predict", "--gpu", "A10G")]
ON_TWO = ("compare", "--instance", "g5.xlarge", "--instance", "g6.xlarge")


@pytest.fixture
def answer_text(answer, shown):
    """The text of an answer on one line, and its document."""
    return lambda *words: (" ".join(shown(*words).split()), answer(*words))


@pytest.mark.parametrize("command", PLACES)
@pytest.mark.parametrize(
    ("model", "size", "raw"),
    [
        ("bert-base-uncased", "sequences of 128 tokens", "seq:128"),
        ("yolov8s", "images of 640 x 640 pixels", "3x640x640"),
        ("resnet50", "images of 224 x 224 pixels", "3x224x224"),
        ("whisper-small", "30 s of audio", "80x3000"),
        ("wav2vec2-base-960h", "10 s of audio", "wave:160000"),
        ("sdxl", "images of 1024 x 1024 pixels", "4x128x128"),
        ("timesformer-base-finetuned-k400", "inputs of 8x3x224x224", "8x3x224x224"),
    ],
)
def test_an_answer_says_how_large_a_sample_is_and_in_which_precision(answer_text, command, model, size, raw):
    text, document = answer_text(*command, "--task", "inference", "--model", model)
    precision = document.get("recommendation", document)["precision"]
    assert f" {precision}, " in text.partition("throughput")[0]
    assert f", {size}" in text.partition("throughput")[0]
    assert f"inference, {size}" in document["asked"]
    assert any(f"on {size}" in sentence for sentence in document["assumptions"])
    assert document["request"]["sample_input"] == raw


def test_the_size_that_was_asked_for_is_the_one_that_is_told(answer_text):
    words = ("--task", "training", "--model", "bert-base-uncased", "--precision", "amp")
    text, document = answer_text("recommend", *words, "--input", "384")
    assert "amp, sequences of 384 tokens" in text
    assert document["request"]["sample_input"] == "seq:384"


def test_a_comparison_and_markdown_say_it_of_each_network(shown, answer_text):
    words = ("--task", "inference", "--model", "bert,yolov8", "--precision", "amp")
    text, document = answer_text(*ON_TWO, *words)
    first, second = document["asked"]
    assert first.startswith("bert-base-uncased inference, amp, sequences of 128 tokens")
    assert second.startswith("yolov8s inference, amp, images of 640 x 640 pixels")
    assert first in text
    assert second in text
    markdown = shown("recommend", *words[:2], "--model", "yolov8", "-o", "md")
    assert "(yolov8: taken as yolov8s)" in markdown


@pytest.mark.parametrize("command", PLACES)
@pytest.mark.parametrize(
    ("name", "network"),
    [
        ("yolov8", "yolov8s"),
        ("vit", "vit_b_16"),
        ("bert", "bert-base-uncased"),
        ("ResNet-50", "resnet50"),
        ("resnet50.a1_in1k", "resnet50"),
        ("whisper", "whisper-small"),
    ],
)
def test_an_answer_says_which_network_a_name_was_taken_as(answer_text, command, name, network):
    text, document = answer_text(*command, "--task", "inference", "--model", name)
    assert f"{name}: taken as {network}" in text
    assert document["request"]["model"] == network
    assert document["request"]["model_asked"] == name


@pytest.mark.parametrize("command", PLACES)
def test_two_networks_of_almost_one_name_are_told_apart(answer_text, command):
    """`resnet-50` is transformers' and `resnet50` torchvision's, with other rates."""
    text, document = answer_text(*command, "--task", "inference", "--model", "resnet-50")
    assert "resnet-50 is another network than resnet50" in text
    assert "resnet-50 is another network than resnet50" in document["assumptions"]
    text, document = answer_text(*command, "--task", "inference", "--model", "resnet50")
    assert "another network" not in text
    assert document["request"]["namesake"] is None


def test_every_ambiguous_name_of_the_table_is_told():
    """Whatever finds a network without being its name: what people say, and what it once was."""
    table = network_table()
    aliases = {
        alias: name
        for (_, name), lines in table._places.items()
        for alias in lines[0].rpartition(",")[2].split(";")
        if alias
    }
    for name in (*table._spellings, *aliases):
        network = table.find(name)
        if name.casefold() != network.name.casefold():
            assert table.other_names(name)[0] == table.shortest_name(network), name


def test_every_network_that_is_written_like_one_of_an_earlier_library_says_so():
    table = network_table()
    namesakes = {name: table.other_names(name)[1] for name in table.names}
    known = {name: other for name, other in namesakes.items() if other}
    assert known["resnet-50"] == "resnet50"
    assert known["vit-base-patch16-224"] == "vit_base_patch16_224"
    assert known["efficientnetv2_s"] == "efficientnet_v2_s"
    for name, other in known.items():
        assert table.find(name).name != table.find(other).name
        assert table.find(name).library != table.find(other).library


def test_a_name_as_its_library_writes_it_needs_no_word():
    table = network_table()
    for name in ("resnet50", "timm/resnet50", "microsoft/resnet-50", "GoogLeNet", "sdxl"):
        assert table.other_names(name) == (None, None), name
