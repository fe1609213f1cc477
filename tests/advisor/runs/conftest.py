"""A database of schedules for each test."""

import pytest

from advisor.store.schedules import ScheduleBook


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/schedules.sqlite"


@pytest.fixture
def book(url):
    book = ScheduleBook(url)
    yield book
    book.close()
