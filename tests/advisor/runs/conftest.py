"""A database of schedules for each test."""

import pytest

from advisor.store.schedules import ScheduleBook


@pytest.fixture
def book(tmp_path):
    book = ScheduleBook(f"sqlite:///{tmp_path}/schedules.sqlite")
    yield book
    book.close()
