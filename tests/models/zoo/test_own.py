"""A user's own network runs from wherever it lives, and its faults are told in one line."""

import sys
from pathlib import Path

import pytest

import advisor.models.zoo.networks
from advisor.errors import UsageError
from advisor.models.zoo.opening import open_network
from advisor.models.zoo.own import load_own

torch = pytest.importorskip("torch")

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "own_network.py"
LINEAR = """
import torch
INPUT_SHAPE = (8,)
def build():
    return torch.nn.Linear(8, 3)
"""


@pytest.fixture
def own(tmp_path):
    """Load a file of this text from a folder of its own."""

    def load(text, name="build"):
        path = tmp_path / "net.py"
        path.write_text(text)
        return load_own(f"{path}:{name}", root=tmp_path)

    return load


def test_the_documented_example_trains_and_infers():
    own = load_own(f"{EXAMPLE}:build")
    own.check()
    network = own.build()
    inputs, targets = own.synthetic_batch(4)
    own.training_loss(network, inputs, targets).backward()
    what, distance = own.forward(network.eval(), inputs)
    assert (what.shape, distance.shape) == ((4, 10), (4,))
    assert all(value.grad is not None for value in network.parameters())
    assert own.synthetic_targets(inputs)["what"].shape == (4,)


def test_a_file_with_nothing_but_build_is_a_classifier_and_may_say_its_unit(own):
    network = own(LINEAR)
    network.check()
    inputs, _ = network.synthetic_batch(5)
    labels = torch.tensor([0, 999, 5, 7, 2])  # of another data set
    loss = network.training_loss(network.build(), inputs, labels)
    assert loss.ndim == 0
    info = own(LINEAR + "UNIT = 'token'\nSAMPLES_PER_ROW = 8\n").info
    assert (info.unit, info.samples_per_row, info.input_shape) == ("token", 8, (8,))


def test_build_is_the_function_unless_another_is_named_and_the_fingerprint_follows_the_content(own, tmp_path):
    own(LINEAR + "def wide():\n    return torch.nn.Linear(8, 30)\n")
    path = tmp_path / "net.py"
    assert open_network(str(path)).build().out_features == 3
    assert open_network(f"{path}:wide").build().out_features == 30
    first = own(LINEAR).fingerprint
    assert own(LINEAR).fingerprint == first
    assert own(LINEAR + "# changed\n").fingerprint != first


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\n", r"has no function build\(\); write one"),
        ("import no_such_library\n", "No module named 'no_such_library'.*install it"),
        ("from .layers import Block\n", "write the import from the repository's root"),
        ("raise SystemExit(3)\n", "__main__"),
        ("def build(:\n", "SyntaxError"),
        ("1 / 0\n", "cannot be loaded .ZeroDivisionError"),
        (LINEAR.replace("(8,)", "(0, 4)"), "INPUT_SHAPE"),
        (LINEAR.replace("(8,)", "'x'"), "INPUT_SHAPE"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_when_it_is_loaded(own, text, expected):
    with pytest.raises(UsageError, match=expected) as raised:
        own(text)
    assert len(str(raised.value).splitlines()) == 1
    assert not [name for name in sys.modules if name.startswith("own_network_net_") and "0" * 12 in name]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def build():\n    pass\n", "returns a NoneType, not a torch.nn.Module"),
        ("def build():\n    raise KeyError('weights')\n", "fails .KeyError: 'weights'"),
        (LINEAR.replace("(8,)", "(9,)"), r"does not take an input of \(2, 9\).*INPUT_SHAPE"),
        (LINEAR + "def example_batch(n):\n    return 5\n", r"let it return \(inputs, targets\)"),
        (LINEAR + "def loss(o, t):\n    return o\n", "not one number"),
        (LINEAR + "def loss(o, t):\n    raise ValueError('x')\n", "has a loss that fails"),
        (
            LINEAR.replace("(8,)", "(3, 8, 8)").replace("Linear(8, 3)", "Conv2d(3, 4, 3)"),
            r"not logits of \(batch, classes\); write loss",
        ),
    ],
)
def test_a_network_that_does_not_work_is_told_by_the_check(own, text, expected):
    with pytest.raises(UsageError, match=expected):
        own(text).check()


def test_a_missing_file_is_told_with_the_form_to_write(tmp_path):
    with pytest.raises(UsageError, match=r"no file .*file.py:build"):
        load_own(str(tmp_path / "absent.py:build"))


def _repository(root, file="train.py"):
    """A repository that calls its packages what the advisor calls its own."""
    for package in ("models", "sweeps", "advisor"):
        (root / package).mkdir()
        (root / package / "__init__.py").write_text(f"NAME = 'their {package}'\n")
    (root / "models" / "layers.py").write_text("import torch\nLAYER = torch.nn.Linear(8, 3)\n")
    (root / "helpers.py").write_text("WIDTH = 8\n")
    (root / file).write_text(
        "from models import NAME\nfrom models.layers import LAYER\nimport advisor, helpers\n"
        "import sweeps\nINPUT_SHAPE = (helpers.WIDTH,)\n"
        "def build():\n    import models.later\n    return models.later.WRAPPED\n"
    )
    (root / "models" / "later.py").write_text(
        "import torch\nfrom models.layers import LAYER\nWRAPPED = torch.nn.Sequential(LAYER)\n"
    )
    return f"{root / file}:build"


@pytest.mark.parametrize("file", ["train.py", "models/train.py"])
def test_a_repository_with_packages_named_like_ours_works(tmp_path, monkeypatch, file):
    """Their `models` and `advisor` answer to them, ours to us: before, in between and after."""
    ours, path = sys.modules["advisor"], list(sys.path)
    reference = _repository(tmp_path, file)
    monkeypatch.chdir(tmp_path)
    own = open_network(reference)
    assert sys.modules["advisor"] is ours
    assert "models" not in sys.modules
    assert own._module.NAME == "their models"
    assert own._module.advisor.NAME == "their advisor"
    network = own.build()
    assert network[0] is own._module.LAYER
    own.check()
    assert sys.modules["advisor"] is ours
    assert "models" not in sys.modules
    assert advisor.models.zoo.networks.network_info("alexnet").name == "alexnet"
    assert sys.path == path


def test_repositories_do_not_see_each_other_and_what_a_package_lacks_is_told_and_ours_put_back(tmp_path):
    ours = sys.modules["advisor"]
    reference = _repository(tmp_path)
    (tmp_path / "models" / "layers.py").unlink()
    with pytest.raises(UsageError, match=r"No module named 'models.layers'"):
        load_own(reference, root=tmp_path)
    assert sys.modules["advisor"] is ours
    assert "models" not in sys.modules
    for name in ("a", "b"):
        (tmp_path / name / "models").mkdir(parents=True)
        (tmp_path / name / "models" / "it.py").write_text(f"NAME = '{name}'\n")
        (tmp_path / name / "net.py").write_text("from models.it import NAME\n" + LINEAR)
    names = [
        load_own(f"{tmp_path / name / 'net.py'}:build", root=tmp_path / name)._module.NAME
        for name in ("a", "b")
    ]
    assert names == ["a", "b"]
