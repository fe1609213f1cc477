"""The page on trust shows the figures of what ships."""

from benchmarks.truth import trust


def test_the_page_has_the_figures_that_the_scorers_wrote():
    page = trust.PAGE.read_text()
    assert page == trust.with_block(page), "python -m benchmarks.truth.trust"
    assert trust.block() in page
