import os

import pytest

from advisor.sweeps.worker.page_cache import cached_share, evict, fill


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{index}" for index in range(4)]
    for path in paths:
        path.write_bytes(os.urandom(1 << 16))
    os.sync()
    return paths


def test_filling_stops_at_the_limit(files):
    assert fill(files, limit_bytes=100_000) == 2 << 16


def test_filling_stops_inside_a_file_that_is_the_whole_data_set(tmp_path):
    (tmp_path / "large").write_bytes(bytes(4 << 20))
    assert fill([tmp_path / "large"], limit_bytes=1.5 * 2**20) == 2 << 20


def test_evicted_files_are_gone_and_read_files_are_there(files):
    evict(files)
    if cached_share(files) is None:
        pytest.skip("this kernel cannot tell what is cached (cachestat, Linux 6.5)")
    if cached_share(files):
        pytest.skip("this file system keeps its pages (tmpfs)")
    fill(files[:2], limit_bytes=1e9)
    assert cached_share(files) == pytest.approx(0.5)
