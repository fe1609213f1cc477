"""`python -m tests.gpu`: on a CUDA device, or with `ADVISOR_TEST_GPU=rehearsal` against a stand-in."""

import sys

import pytest

from advisor.errors import MeasuringError
from tests.gpu.conftest import is_rehearsal, require_whole_gpu


def main() -> int:
    if not is_rehearsal():
        try:
            require_whole_gpu()
        except MeasuringError as error:
            sys.stderr.write(f"test-gpu: {error}\n")
            return 1
    return pytest.main(["-m", "lane_gpu", "tests/gpu", *sys.argv[1:]])


if __name__ == "__main__":
    raise SystemExit(main())
