"""The notebooks run from their first cell to their last, as a reader runs them."""

from pathlib import Path

import pytest

import advisor

FOLDER = Path(advisor.__file__).parents[1] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_four_and_they_keep_no_output():
    import nbformat

    assert len(NOTEBOOKS) == 4
    for file in NOTEBOOKS:
        book = nbformat.read(file, as_version=4)
        nbformat.validate(book)
        cells = [cell for cell in book.cells if cell.cell_type == "code"]
        assert [cell for cell in cells if cell.outputs or cell.execution_count] == [], file.name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own event loops
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(file, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(book, timeout=200, kernel_name="python3", resources=resources).execute()
    pages = [
        output["data"].get("text/html", "")
        for cell in book.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    ]
    assert any("data:image/svg+xml" in page or "<table" in page for page in pages)
