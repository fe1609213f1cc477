"""The third: the answer in lines."""

from advisor.render.borderline import sure_message
from advisor.render.text import fact, spec_lines


def rendering_text(answer):
    """What to rent, what it does, and how sure that is."""
    head = spec_lines(answer.chosen.spec, answer.request)
    does = f"{answer.chosen.frames_per_second:g} frames/s"
    return "\n".join([*head, fact("does", does), fact("how sure", str(sure_message(answer)))])
