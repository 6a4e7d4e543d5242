"""A clock that tests turn by hand."""


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def run(meter, clock, seconds, step=0.1, during=None):
    """One window of a meter without a thread, sampled every ``step``; ``during(t)`` may break things."""
    meter.start()
    ticks = round(seconds / step)
    for tick in range(1, ticks + 1):
        clock.sleep(step)
        if during:
            during(tick * step)
        if tick < ticks:
            meter.sample()
    return meter.stop()
