"""A message about a name names the way out, however many names there are."""

import ast
import json
from pathlib import Path
from string import Formatter

import advisor.cli.serve
import advisor.questions.ranks
import advisor.runs.endpoint.questions
import advisor.runs.questions
from advisor import errors
from advisor.errors import unknown_name
from advisor.naming import counted_reasons
from advisor.questions.question import Question
from advisor.render.i18n.catalogue import FOLDER, report_texts

ROOT = Path(advisor.__file__).parents[1]
ROOMS = ("advisor", "models", "sweeps", "infra")
NAMES = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.AdvisorError)
}


def test_near_names_are_offered_before_a_list_that_says_what_is_missing():
    assert "did you mean gp3?" in str(unknown_name("disk type", "gp33", ["gp3", "local"]))
    said = str(unknown_name("GPU", "zzz", [f"card {i:02}" for i in range(20)]))
    assert said.endswith("card 11 and 8 more")
    said = str(unknown_name("instance type", "zzz", ["a", "b"], listed_by="advisor catalog list"))
    assert said.endswith("`advisor catalog list` lists those that are known")


def _fields_of(question):
    """The names of a question's fields, and of those of its kinds."""
    return set(question.fields).union(*map(_fields_of, question.__subclasses__()))


def _calls():
    """Each call that makes an error of a text that stands there, with the names it is given; that of a field
    knows the names of all fields."""
    fields = _fields_of(Question) | {"field"}
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                    continue
                given = {one.arg for one in node.keywords} - {"hint", "field", "code"}
                is_wrong = node.func.id == "error_in"
                text = node.args[is_wrong : is_wrong + 1]
                if (node.func.id in NAMES or is_wrong) and text and None not in given:
                    yield file, node.lineno, text[0], given | (fields if is_wrong else set())
                for hint in node.keywords if is_wrong else ():
                    if hint.arg == "hint":
                        yield file, node.lineno, hint.value, fields


def test_every_error_is_given_what_its_text_names():
    lacking = []
    for file, line, text, given in _calls():
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            named = {name.partition(".")[0] for _, name, _, _ in Formatter().parse(text.value) if name}
            if named - given:
                lacking.append((file.relative_to(ROOT).as_posix(), line, named - given))
    assert lacking == []


# How many types each reason took out, in words that every language has.
def test_each_reason_has_words_in_both_languages_and_they_are_listed_in_their_order():
    """No code of a reason is shown, with `_` or in English on a Chinese page."""
    texts = json.loads((FOLDER / "texts" / "engine.json").read_text())
    reasons = [key.removeprefix("reason.") for key in texts if key.startswith("reason.")]
    chinese = report_texts("zh-CN")
    for reason in reasons:
        said = counted_reasons({reason: 1234})
        assert str(said).startswith("1,234 ")
        assert "_" not in str(said)
        words = chinese.render(said).removeprefix("1,234 ")
        assert not words.isascii(), reason
    said = counted_reasons({"too_slow": 2, "no_price": 1})
    assert str(said) == "2 too slow, 1 without a price"
    assert report_texts("zh-CN").render(said) == "2 个太慢、1 个没有价格"
