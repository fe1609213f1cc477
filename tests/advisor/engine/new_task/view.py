"""The third: the answer in lines."""

from advisor.render.borderline import sure_message
from advisor.render.text import disk_text, fact


def rendering_text(answer):
    """What to rent, what it does, and how sure that is."""
    spec = answer.chosen.spec
    head = f"{spec.name} + {disk_text(spec.disk)}   ${spec.total_usd_per_hour:.3f}/h"
    does = f"{answer.chosen.frames_per_second:g} frames/s"
    return "\n".join([head, fact("does", does), fact("how sure", str(sure_message(answer)))])
