"""A model survives the way to disk and back, and a bad file is told apart in one line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import DataError
from models.performance import load_model, save_model
from models.performance.persistence import content_id, to_document


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.json"
    save_model(load_model(), path)
    return path


def test_a_saved_model_is_the_same_model(saved):
    """Every number, and so the id, comes back unchanged."""
    assert to_document(load_model(saved)) == to_document(load_model())
    assert load_model(saved).id == load_model().id


def test_the_id_stands_for_the_content():
    document = to_document(load_model())
    assert content_id(document) == document["id"] == load_model().id
    assert content_id({**document, "error_percent": 0.1}) != document["id"]


@given(st.integers(0, 2_000))
def test_any_cut_file_is_told_as_no_model(cut):
    """A file that ends too early never loads and never shows a traceback's error."""
    import tempfile
    from pathlib import Path

    text = json.dumps(to_document(load_model()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cut.json"
        path.write_text(text[:cut])
        with pytest.raises(DataError, match="advisor fit"):
            load_model(path)


def test_a_changed_number_is_noticed(saved):
    document = json.loads(saved.read_text())
    document["pipeline"]["largest_vcpus"] += 1
    saved.write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"damaged.*advisor fit"):
        load_model(saved)


def test_another_format_is_named_with_the_way_out(saved):
    document = json.loads(saved.read_text()) | {"schema": "advisor.performance/99"}
    saved.write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"advisor\.performance/99.*advisor fit"):
        load_model(saved)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"absent\.json cannot be read"):
        load_model(tmp_path / "absent.json")


def test_a_place_that_cannot_be_written_leaves_nothing_half_done(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(DataError, match="--out"):
        save_model(load_model(), blocked / "model.json")
    assert blocked.read_text() == "in the way"


def test_loading_and_predicting_need_no_heavy_package():
    """A command that people wait for must not pay for SciPy, scikit-learn, pandas or torch."""
    code = (
        "import sys; from models.performance import load_model; load_model();"
        "heavy = {'scipy', 'sklearn', 'pandas', 'torch', 'sqlalchemy'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
