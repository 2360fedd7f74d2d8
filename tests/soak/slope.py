"""Whether a series of samples grows: the Theil–Sen slope of its last half, times how long that half took.

The slope is the median of the slopes between all pairs of samples, so that a few spikes do not move it.
Descriptors come and go by dozens as rails fall and files of theirs are opened again; what leaks raises
their floor as well, so counts are judged by the least of each part of the half."""

import statistics
from dataclasses import dataclass

MIB = 1 << 20
# What may come and go within a half: allocators give memory back late.
MEMORY_NOISE = MIB
MEMORY_SHARE = 0.10
# Below one whole descriptor or thread, or below twice the median deviation of the floors where that is more:
# what grows steadily grows by four times that.
COUNT_NOISE = 1.0
# Fewer samples in the half say nothing.
FEWEST = 20
# Parts of a half, each with its floor.
PARTS = 10


@dataclass
class Growth:
    """Of one series: its median over the last half, its growth over that half, and what is allowed."""

    middle: float
    grown: float
    allowed: float

    @property
    def flat(self):
        return self.grown < self.allowed


def theil_sen(samples):
    """Median slope between all pairs of `(seconds, value)`."""
    slopes = [(later[1] - sooner[1]) / (later[0] - sooner[0])
              for at, sooner in enumerate(samples) for later in samples[at + 1:]
              if later[0] > sooner[0]]
    return statistics.median(slopes)


def last_half(samples):
    middle = (samples[0][0] + samples[-1][0]) / 2
    return [sample for sample in samples if sample[0] >= middle]


def floors(samples):
    """The least value of each part, at the middle of the part's time."""
    cuts = [len(samples) * part // PARTS for part in range(PARTS + 1)]
    parts = [samples[begin:end] for begin, end in zip(cuts, cuts[1:])]
    return [((part[0][0] + part[-1][0]) / 2, min(value for _, value in part)) for part in parts]


def deviation(samples):
    """Median distance from the median."""
    middle = statistics.median(value for _, value in samples)
    return statistics.median(abs(value - middle) for _, value in samples)


def growth(samples, memory):
    """`memory`: values are bytes; else they are counts."""
    half = last_half(samples)
    if len(half) < FEWEST:
        raise ValueError(f"{len(half)} samples in the last half; at least {FEWEST} are needed")
    middle = statistics.median(value for _, value in half)
    judged = half if memory else floors(half)
    allowed = max(MEMORY_NOISE, MEMORY_SHARE * middle) if memory else max(COUNT_NOISE, 2 * deviation(judged))
    return Growth(middle, theil_sen(judged) * (half[-1][0] - half[0][0]), allowed)
