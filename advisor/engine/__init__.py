"""Decides which spec answers a question: candidates -> predictions -> decision -> explanation."""

from advisor.engine.assumptions import script_assumption, stack_assumption
from advisor.engine.candidates import BATCH_SIZES
from advisor.engine.limits import MOST_INSTANCES
from advisor.engine.prepared import Preparations
from advisor.engine.rejected import STAGE_NAMES
from advisor.engine.tasks.network import recommend
