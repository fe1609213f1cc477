"""A clock that a test owns."""


class SleepingClock:
    """Time that passes only when somebody sleeps; sleeps end `late`, as real ones do."""

    def __init__(self, late=0.0):
        self.now = 100.0
        self.slept = 0.0
        self.late = late

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds + self.late * (seconds > 0)
        self.slept += seconds
