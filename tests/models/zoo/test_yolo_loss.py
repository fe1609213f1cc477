"""YOLOv3 learns boxes, objectness and classes, and from padding it learns nothing."""

import math

import pytest

pytestmark = pytest.mark.vector

torch = pytest.importorskip("torch")
from advisor.models.zoo.detectors import ANCHORS, YoloV3, yolo_loss  # noqa: E402

_CLASSES, _SIDE = 4, 128
# Class 2, a little beside the middle of a cell of the coarse grid, shaped like its first anchor.
_BOX = (2.0, 0.55, 0.45, ANCHORS[0][0][0] / _SIDE, ANCHORS[0][0][1] / _SIDE)


def _nothing(batch=1):
    """Grids that are sure that there is no object anywhere."""
    grids = [torch.zeros(batch, 3, _SIDE // s, _SIDE // s, 5 + _CLASSES) for s in (32, 16, 8)]
    for grid in grids:
        grid[..., 4] = -30
    return grids


def _right():
    """Grids that say exactly what `_BOX` is: coarse grid, first anchor, column 2, row 1."""
    grids = _nothing()
    cell = grids[0][0, 0, 1, 2]
    offsets = [0.55 * 4 - 2, 0.45 * 4 - 1]
    cell[:2] = torch.tensor([math.log(x / (1 - x)) for x in offsets])
    cell[2:4] = 0
    cell[4] = 30
    cell[5:] = -30
    cell[5 + 2] = 30
    return grids


def _loss(grids, *boxes):
    return yolo_loss(tuple(grids), torch.tensor([list(boxes)])).item()


def test_the_right_answer_costs_nothing_and_shapes_alone_decide_the_work():
    assert _loss(_right(), _BOX) == pytest.approx(0, abs=1e-4)
    with torch.device("meta"):
        grids = YoloV3(_CLASSES)(torch.empty(2, 3, _SIDE, _SIDE))
        loss = yolo_loss(grids, torch.empty(2, 7, 5))
    assert [grid.shape[1:] for grid in grids] == [(3, n, n, 5 + _CLASSES) for n in (4, 8, 16)]
    assert loss.shape == ()


@pytest.mark.parametrize("value", range(5 + _CLASSES))
def test_every_value_of_the_owning_anchor_matters(value):
    grids = _right()
    grids[0][0, 0, 1, 2, value] += 40 if value > 4 and value != 7 else -40
    assert _loss(grids, _BOX) > 0.01


def test_a_missed_or_imagined_object_costs_and_a_near_miss_of_another_anchor_or_padding_does_not():
    missed = _loss(_nothing(), _BOX)
    grids = _right()
    grids[2][0, 1, 3, 3, 4] = 30
    assert missed > 30
    assert _loss(grids, _BOX) == pytest.approx(30, rel=0.01)
    grids = _right()
    cell = grids[0][0, 1, 1, 2]
    cell[:4] = grids[0][0, 0, 1, 2, :4]
    wide, high = ANCHORS[0][1]
    cell[2] = math.log(ANCHORS[0][0][0] / wide)
    cell[3] = math.log(ANCHORS[0][0][1] / high)
    cell[4] = 30
    assert _loss(grids, _BOX) == pytest.approx(0, abs=1e-4)
    padding = (0.0, 0.0, 0.0, 0.0, 0.0)
    assert _loss(_right(), _BOX, padding) == _loss(_right(), _BOX)
    assert _loss(_nothing(), padding) == pytest.approx(0, abs=1e-4)
