"""`streamjobs.stages.clip_targets` as its first lines state it, one key and one target after the other."""

import math


class ClipTargets:
    """Of one key with one number in a label."""

    def __init__(self, clip: float) -> None:
        self.clip, self.mean, self.variance, self.largest, self.in_a_row, self.seen = clip, 0.0, 0.0, 0.0, 0, 0

    def learned(self, y: float) -> float:
        """What is learned of y."""
        self.seen += 1
        weight = max(1 / self.seen, 0.01)
        allowed = self.clip * max(math.sqrt(self.variance), 1e-4 * self.largest) * 2.0**self.in_a_row
        away = y - self.mean
        if self.seen > 20 and 0 < allowed < abs(away):
            away = math.copysign(allowed, away)
            y = self.mean + away
            self.in_a_row += 1
        else:
            self.in_a_row = 0
        self.mean += weight * away
        self.variance = (1 - weight) * (self.variance + weight * away**2)
        self.largest = max(self.largest, math.sqrt(self.variance))
        return y
