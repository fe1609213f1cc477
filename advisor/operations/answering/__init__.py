"""One function a question: words -> the answer, for whoever asks (command line, service).

Words are what `advisor.operations.questions` read, by the command line's names with underscores
(`model` is `network`). What comes back is a record with a `document()`: `-o json` prints it, the
service sends it, so the two cannot disagree.
"""

from advisor.operations.answering.ground import Ground as Ground
from advisor.operations.answering.ground import Words as Words
