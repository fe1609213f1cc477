"""`python -m benchmarks.truth.trust`: the figures of docs/explanation/trust.md, and of the READMEs.

They are rows of the pages that the scorers wrote (docs/internals/accuracy): those pages are the only source,
and their writers call this. A row that a page no longer has is an error."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path

from benchmarks.truth.tables import heads, row

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = DOCS / "explanation" / "trust.md"
# Quote some, the hardest among them.
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
# Answers name the test that is most like them.
TESTS = ROOT / "advisor" / "data" / "withheld.csv"
NETWORKS = DOCS / "internals" / "accuracy" / "shipped.md"
LANGUAGE = DOCS / "internals" / "accuracy" / "language.md"
_BLOCK = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)
_QUOTED = re.compile(r"(<!-- scored -->\n).*?(<!-- /scored -->)", re.DOTALL)

# What was withheld from the fit, and the row of the page that left it out.
_RATES = (
    ("your batch size", "a batch size of a measured cell"),
    ("your network, not others of its class", "a network, its class known"),
    ("every network of its class, inference", "a class of networks, GPU measured, inference"),
    ("every network of its class, training", "a class of networks, GPU measured, training"),
    ("a GPU that clouds sell, PyTorch 2", "a GPU that clouds sell, PyTorch >= 2"),
    ("any GPU", "a GPU, data sheet only"),
    ("the source of a training script", "a source of training scripts"),
    ("the GPU, except six networks measured on it", "a GPU, six networks measured by the user"),
    ("your network, except an anchor from another GPU", "a network, anchored on another GPU"),
    ("all that one source measured", "a source of rows"),
    ("the GPU and every network of the class", "class, GPU and precision at once"),
    (
        "rows whose licence lets nobody fit them: others' networks, cards and settings",
        "rows that may not be fitted (licence)",
    ),
)
# Tests that no answer quotes.
_OTHERS = (
    ("nothing: these rows taught the predictor", "nothing (the rows taught it)"),
    ("a GPU that clouds sell, any PyTorch", "a GPU that clouds sell"),
    ("any GPU, where the predictor knows who measured", "a GPU, its source known"),
    ("a GPU, except its kernels", "a GPU, its kernels measured"),
    ("a GPU in one precision", "a GPU in one precision"),
    ("every GPU of its architecture", "an architecture of GPUs"),
)
# Rows that the READMEs quote: the words of the Chinese one.
_QUOTES = {
    "a network, its class known": "你的网络、保留同类网络",
    "a class of networks, GPU measured, training": "同类的全部网络、训练",
    "a GPU that clouds sell, PyTorch >= 2": "云上出售的一种 GPU、PyTorch 2",
    "a source of rows": "一个来源的全部测量",
    "rows that may not be fitted (licence)": "许可不允许拟合的测量、其他人的网络与显卡",
}
_HEADS = {
    "en": ("withheld, then predicted", "mean error", "median error", "p10 held (aim: 90 %)"),
    "zh-CN": ("先留出、再预测的对象", "平均误差", "中位误差", "p10 成立、目标 90 %"),
}
_CHOICES = (("nothing", "nothing"), ("the network", "the network"), ("the GPU", "the GPU"))
_RULES = (("recommended", "expected"), ("after one trial", "expected with trial"), ("the safe one", "bound"))
_LLM = (("the GPU", "the GPU"), ("the language model", "the LLM"))
_FIGURES = ("TPOT", "TTFT", "output tokens/s")
_KINDS = (
    ("over PCIe", "the same, over PCIe"),
    ("mixtures", "the same, mixtures"),
    ("few requests of a mixture in fp8", "the same, a mixture in fp8, 8 or fewer in flight"),
)
_TUNING = (("the GPU", "the gpu"), ("the model size", "the model size"))


def block() -> str:
    """The tables, from the scorers' pages as they are."""
    networks, language = NETWORKS.read_text(), LANGUAGE.read_text()
    return "\n".join([*_rates(networks), *_choices(networks), *_language(language)])


def tests() -> str:
    """The tests of rates, as answers quote them."""
    networks, language = NETWORKS.read_text(), LANGUAGE.read_text()
    alone = language.split("## By what is left out", 1)[1]
    trials = language.split("## After three trials", 1)[1]
    rate, llm = "output tokens/s", "the language model, but three trials"
    rows = [
        *(("rate", words, _scored_row(networks, name)) for words, name in _RATES),
        *((rate, words, _scored_row(alone, name, rate)) for words, name in _LLM),
        *((kind, words, _scored_row(alone, name, figure)) for words, name in _LLM for kind, figure in _KINDS),
        (rate, llm, _scored_row(trials, "the LLM", rate)),
        *(("tuning", words, _scored_row(language, name, "all")) for words, name in _TUNING),
    ]
    lines = StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(["figure", "what", "median_percent", "held_percent", "rows"])
    for figure, words, scored in rows:
        errors = scored.get("mean / median") or scored["after"]
        held, count = (
            scored.get("held") or scored["held after"],
            scored["n" if figure == "tuning" else "rows"],
        )
        median = errors.replace("*", "").split(" / ")[1]
        table.writerow([figure, words, median, held.strip("*"), count.replace(",", "")])
    return lines.getvalue()


def with_block(page: str) -> str:
    """The page with today's tables between its marks."""
    return _BLOCK.sub(lambda found: f"{found[1]}{block()}{found[2]}", page)


def quoted(page: str, language: str) -> str:
    """A README with today's figures between its marks."""
    networks = NETWORKS.read_text()
    lines = heads(*_HEADS[language])
    for english, name in _RATES:
        if name in _QUOTES:
            words = _QUOTES[name] if language == "zh-CN" else english
            lines.append(row(words, *_errors(_scored_row(networks, name))))
    return _QUOTED.sub(lambda found: "\n".join([found[1] + lines[0], *lines[1:], found[2]]), page)


def main() -> None:
    """Write the figures into the pages, and the tests that answers quote."""
    PAGE.write_text(with_block(PAGE.read_text()))
    for readme in READMES:
        readme.write_text(quoted(readme.read_text(), language_of(readme)))
    TESTS.write_text(tests())


def language_of(readme: Path) -> str:
    """'zh-CN' of README.zh-CN.md."""
    return "zh-CN" if "zh-CN" in readme.name else "en"


def _errors(scored: Mapping[str, str]) -> list[str]:
    """Mean and median error, and how often the bound held."""
    mean, median = scored["mean / median"].replace("*", "").split(" / ")
    return [f"{figure} %" for figure in (mean, median, scored["held"])]


def _rates(page: str) -> Iterator[str]:
    yield "**Rate of a network** (training or inference):\n"
    yield from heads("withheld", "mean error", "median error", "p10 held (aim 90 %)", "rows")
    for words, name in (*_OTHERS, *_RATES):
        scored = _scored_row(page, name)
        yield row(words, *_errors(scored), scored["rows"])
    scored = _scored_row(page, "GPU memory at its peak")
    mean, median, held = _errors(scored)
    yield f"\n**GPU memory** at its peak, on {scored['rows']} public rows: mean error {mean}, median"
    yield f"{median}; the upper bound (95 %) held in {held}.\n"


def _choices(page: str) -> Iterator[str]:
    heading = page.split("## The cheapest instance for a target", 1)[1]
    yield "**The choice**, of a thousand questions whose true answer was measured:\n"
    yield from heads("withheld", "chosen", "cheapest chosen", "target met", "paid too much")
    for words, name in _CHOICES:
        scored = _scored_row(heading, name)
        for spec, rule in _RULES:
            figures = scored[rule].partition(",")[0].split(" / ")
            yield row(words, spec, *(f"{figure} %" for figure in figures))
    yield ""


def _language(page: str) -> Iterator[str]:
    yield "**A language model that is served**:\n"
    yield from heads("withheld", "figure", "mean error", "median error", "90 % bound held", "rows")
    heading = page.split("## By what is left out", 1)[1]
    kinds = [(f"time of a token, {kind}", name) for kind, name in _KINDS]
    for words, name in _LLM:
        for figure, line in [*zip(_FIGURES, _FIGURES, strict=True), *kinds]:
            scored = _scored_row(heading, name, line)
            yield row(words, figure, *_errors(scored), scored["rows"])
    yield "\n**A language model that is fine-tuned**, tokens a second:\n"
    yield from heads("withheld", "mean error", "median error", "p10 held", "rows")
    for words, name in (*_TUNING, ("all that one source measured", "the source")):
        scored = _scored_row(page, name, "all")
        yield row(words, *_errors(scored), scored["n"])
    yield ""


def _scored_row(page: str, *first: str) -> dict[str, str]:
    """The first row of a page's tables that begins with these cells, by column."""
    columns: list[str] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else []
        columns = (columns or cells) if cells else []
        if cells[: len(first)] == list(first):
            return dict(zip(columns, cells, strict=True))
    raise SystemExit(f"no row {' | '.join(first)}")


if __name__ == "__main__":
    main()
