"""Marks of tests that start real workers."""

import pytest

# torch and Ray leave sockets and files to the garbage collector.
LEFT_TO_THE_COLLECTOR = (
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
)
REAL_WORKER = [pytest.mark.slow, pytest.mark.machine, *LEFT_TO_THE_COLLECTOR]
