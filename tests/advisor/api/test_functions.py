"""The Python API answers as the command line does, in the same names and units; its notebooks run."""

import ast
import inspect
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import advisor
from advisor.api import functions
from advisor.cli import main
from advisor.domain import Precision, Task
from advisor.infra.build.documents import stub
from benchmarks.python_api import asked_by_command, asked_by_python, questions

ROOT = Path(advisor.__file__).parents[1]
RECOMMEND = {"task": "inference", "model": "googlenet", "target_throughput": 500}
ASKED = {
    "recommend": RECOMMEND,
    "predict": {"task": "training", "model": "vgg16", "instance": "g5.xlarge", "memory": "24GiB"},
    "compare": {"task": "training", "model": ["resnet50", "vgg16"], "gpu": ["T4", "L4"]},
    "memory": {"model": "resnet50", "batch_size": 64, "gpu": "T4"},
    "gpus": {"gpu": "24GiB..", "sort_by": "memory_mib"},
    "generation": {"task": "generation", "model": "meta-llama/Llama-3.1-8B", "users": 40},
    "finetuning": {"task": "finetuning", "model": "meta-llama/Llama-3.1-8B", "tokens": 1e8},
}


def _words(fields):
    """The options of the command line for the same fields."""
    for name, value in fields.items():
        texts = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        yield from (f"--{name.replace('_', '-')}", texts)


def _differs(command, fields):
    """Asked twice: a day may begin between an answer and the other."""
    return all(asked_by_python(command, fields) != asked_by_command(command, fields) for _ in range(2))


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_is_the_json_and_the_text_of_the_command(name, ask):
    fields = ASKED[name]
    command = name if name in main.COMMANDS else "recommend"
    answer = getattr(advisor, command)(**fields)
    assert json.loads(ask(command, *_words(fields), "-o", "json")[1]) == (
        json.loads(json.dumps(answer.to_dict()))
    )
    assert ask(command, *_words(fields))[1] == f"{answer}\n"


def test_lists_are_those_of_the_command_line(ask):
    networks, offers = advisor.networks("resnet*"), advisor.offers(gpu="T4", market="spot")
    of_offers = ["catalog", "list", "--gpu", "T4", "--market", "spot"]
    for answer, words in ((networks, ["networks", "resnet*"]), (offers, of_offers)):
        assert json.loads(ask(*words, "-o", "json")[1]) == answer.to_dict()
        assert ask(*words)[1] == f"{answer}\n"
    assert len(offers.to_frame()) == len(offers.offers) > 40


@pytest.mark.parametrize(
    ("seed", "count"),
    [(7, 6), pytest.param(24, 150, marks=pytest.mark.slow), pytest.param(25, 1000, marks=pytest.mark.night)],
)
def test_random_questions_get_the_json_of_the_command_line(seed, count):
    assert [row for row in islice(questions(seed=seed), count) if _differs(*row)] == []


def test_values_of_python_are_read_as_texts_are():
    plain = advisor.recommend(
        **RECOMMEND | {"target_throughput": "0.5k"}, gpu="T4,L4", precision="amp", vcpus=8, strict=None
    )
    numbers = {"target_throughput": np.float64(500.0), "vcpus": np.int64(8), "strict": False}
    words = {"task": Task.INFERENCE, "gpu": ["T4", "L4"], "precision": Precision.AMP}
    typed = advisor.recommend(model="googlenet", **words, **numbers)
    assert typed.to_dict() == plain.to_dict()


@pytest.mark.parametrize(
    ("fields", "field", "text"),
    [
        ({"modle": "resnet50"}, "modle", "did you mean model?"),
        ({**RECOMMEND, "max_hours": 3}, "max_hours", "say how long it is with epochs or samples"),
        ({**RECOMMEND, "max_price": -1}, "max_price", "max_price must be a number above 0"),
        ({**RECOMMEND, "max_price": float("nan")}, "max_price", "max_price must be"),
        ({**RECOMMEND, "gpu": {"T4"}}, "gpu", "not set; give a text or a number"),
        ({**RECOMMEND, "users": 4}, "users", "users goes with task generation"),
        ({"task": "training"}, "model", "model is missing"),
    ],
)
def test_a_wrong_argument_is_a_usage_error_that_names_it_as_an_argument(fields, field, text):
    with pytest.raises(advisor.UsageError) as error:
        advisor.recommend(**{"task": "inference", **fields})
    assert error.value.field == field
    assert text in str(error.value)
    assert "--" not in str(error.value)


def test_where_nothing_answers_the_answer_says_so_and_require_raises(ask):
    fields = {**RECOMMEND, "target_throughput": 5e7}
    answer = advisor.recommend(**fields)
    assert answer.recommendation is None
    assert answer.relax
    with pytest.raises(advisor.NoOfferError):
        answer.require()
    code, printed, _ = ask("recommend", *_words(fields), "-o", "json")
    assert code == advisor.NoOfferError.exit_code
    assert json.loads(printed) == answer.to_dict()


def test_an_answers_fields_are_its_attributes_and_a_frame_has_the_columns_of_the_csv(ask):
    answer = advisor.recommend(**RECOMMEND)
    document = answer.to_dict()["recommendation"]
    assert answer.recommendation.instance_type == document["instance_type"]
    assert answer.recommendation.price.usd_per_hour == document["price"]["usd_per_hour"]
    others = [other["instance_type"] for other in answer.to_dict()["alternatives"]]
    assert [alternative.instance_type for alternative in answer.alternatives] == others
    assert {"recommendation", "to_frame", "report"} <= set(dir(answer))
    with pytest.raises(AttributeError, match="no field 'instance'"):
        _ = answer.recommendation.instance
    answer = advisor.recommend(**RECOMMEND, max_results=3)
    csv = ask("recommend", *_words(RECOMMEND), "--max-results", "3", "-o", "csv")[1]
    assert set(answer.to_frame().columns) == set(csv.splitlines()[0].split(","))
    assert len(answer.to_frame()) == len(csv.splitlines()) - 1


@pytest.mark.parametrize("name", ["recommend", "generation"])
def test_a_notebook_shows_the_interval_chart_and_the_specs(name):
    answer = advisor.recommend(**ASKED[name])
    page = answer._repr_html_()
    assert '<img src="data:image/svg+xml' in page
    assert answer.recommendation.instance_type in page
    assert "<table" in page


def test_a_report_is_that_of_the_command(tmp_path):
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    assert advisor.recommend(**RECOMMEND).report(file) == file
    main.run(["report", *_words(RECOMMEND), "--out", str(other)])
    assert json.loads(file.read_text()) == json.loads(other.read_text())
    with pytest.raises(advisor.UsageError, match="docx"):
        advisor.recommend(**RECOMMEND).report(tmp_path / "a.docx")


def test_the_stub_the_signature_and_the_help_are_made_of_the_question():
    assert stub.FILE.read_text() == stub.stub()
    ast.parse(stub.stub())
    for name in ("recommend", "predict", "compare", "memory", "gpus", "offers"):
        function = getattr(functions, name)
        parameters = inspect.signature(function).parameters
        assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters.values())
        assert all(f"    {parameter}: " in function.__doc__ for parameter in parameters)
    parameters = inspect.signature(advisor.recommend).parameters
    assert parameters["confidence"].default is None
    assert parameters["max_price"].annotation == "float | None"
    assert "target_throughput" in parameters


@pytest.mark.slow
def test_a_type_checker_knows_each_tasks_fields(tmp_path):
    (tmp_path / "call.py").write_text(
        "import advisor\n"
        "advisor.recommend(task='generation', model='x', users=4).report('a.html')\n"
        "advisor.recommend(task='generation', model='x', epochs=4)\n"
    )
    (tmp_path / "mypy.ini").write_text("[mypy]\nfollow_imports = silent\n")
    checked = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "call.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(checked, cwd=tmp_path, env=environment, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[1] for line in errors] == ["3"], done.stdout


def test_the_package_has_every_public_name_and_imports_none_before_it_is_used():
    code = "import sys; import advisor; print([m for m in sys.modules if m.startswith('advisor.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert {"recommend", "UsageError", "measure"} <= set(dir(advisor))
    with pytest.raises(AttributeError, match="no attribute 'recomend'"):
        _ = advisor.recomend
    for name in advisor.__all__:
        assert getattr(advisor, name).__doc__, name


FOLDER = Path(advisor.__file__).parents[1] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own event loops
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(file, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(book, timeout=200, kernel_name="python3", resources=resources).execute()
    pages = [
        output["data"].get("text/html", "")
        for cell in book.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    ]
    assert any("data:image/svg+xml" in page or "<table" in page for page in pages)
