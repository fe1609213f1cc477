"""What the docs count is what there is."""

from pathlib import Path

import pytest

from advisor.models.language.configs import bundled_language_models

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("README.md", "{} checkpoints by name"),
        ("README.zh-CN.md", "按名称 {} 个检查点"),
        ("docs/how-to/language.md", "{} checkpoints are known by name"),
        ("docs/internals/language.md", "The table has {} models"),
    ],
)
def test_a_page_counts_the_language_models_that_are_known(page, words):
    known = len(bundled_language_models().names())
    assert words.format(known) in (ROOT / page).read_text()
