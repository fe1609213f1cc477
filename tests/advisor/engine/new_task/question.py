"""The first of three files: what may be said, validated once."""

from advisor.questions.spec import SpecQuestion


class Rendering(SpecQuestion):
    """Frames a second are to be rendered, whose scene is 10 GiB."""

    target_frames_per_second: float
