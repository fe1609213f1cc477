"""Which trial of a sweep to run next, from the physical form and its doubt.

Fitted trials go in, indices of trials come out; see internals/search.md.
"""

from advisor.models.performance.surface.anchors import anchor_trials, log_determinant
from advisor.models.performance.surface.belief import Belief, Surface
from advisor.models.performance.surface.choosing import Choice, next_trials
from advisor.models.performance.surface.question import Question

__all__ = ["Belief", "Choice", "Question", "Surface", "anchor_trials", "log_determinant", "next_trials"]
