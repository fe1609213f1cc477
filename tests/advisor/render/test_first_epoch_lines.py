"""The first pass over the data in the text of answers."""

from advisor.domain import RunTime, Span
from advisor.render.text import first_epoch_lines

FIRST = Span(lower=0.1, median=0.2, upper=0.25)


def test_training_says_how_long_its_first_epoch_takes():
    (line,) = first_epoch_lines(FIRST, None, 0.9)
    assert line.strip() == "first epoch median 12 min, p90 15 min, from the disk"


def test_a_run_says_it_itself_and_what_does_not_train_has_none():
    run = RunTime(samples=100, hours=FIRST, first_epoch=FIRST)
    assert first_epoch_lines(FIRST, run, 0.9) == []
    assert first_epoch_lines(None, None, 0.9) == []
