"""Would a leak be noticed? `tests/soak/run` runs these first."""

import random
import unittest

from slope import FEWEST, MIB, growth, last_half, theil_sen


def series(value, count=120, every=5):
    return [(number * every, value(number)) for number in range(count)]


class Slope(unittest.TestCase):
    def setUp(self):
        self.chance = random.Random(7)

    def noise(self, most):
        return self.chance.uniform(-most, most)

    def test_the_slope_of_a_line_is_its_own(self):
        self.assertAlmostEqual(theil_sen(series(lambda n: 40 + 3 * n)), 3 / 5)

    def test_flat_with_noise_and_spikes_passes(self):
        for memory, middle, noise, spike in ((True, 12 * MIB, MIB, 8 * MIB), (False, 40, 2, 25)):
            flat = series(lambda n: middle + self.noise(noise) + (spike if n % 11 == 0 else 0))
            found = growth(flat, memory)
            self.assertTrue(found.flat, found)

    def test_a_leak_beneath_noise_fails(self):
        # 2 MiB over the last half of a series that jumps by as much.
        found = growth(series(lambda n: 12 * MIB + n * 2 * MIB / 60 + self.noise(MIB)), True)
        self.assertFalse(found.flat, found)
        # A share of what is large: 12 % of 100 MiB.
        found = growth(series(lambda n: 100 * MIB + n * 13 * MIB / 60), True)
        self.assertFalse(found.flat, found)

    def test_a_descriptor_a_minute_fails(self):
        # Beneath the 40 that come and go with a rail.
        found = growth(series(lambda n: 340 + n // 12 + self.chance.choice((0, 16, 40))), False)
        self.assertFalse(found.flat, found)

    def test_descriptors_that_come_and_go_pass(self):
        for seed in range(20):
            self.chance.seed(seed)
            found = growth(series(lambda n: 340 + self.chance.choice((0, 1, 2, 16, 40))), False)
            self.assertTrue(found.flat, found)

    def test_what_grows_at_first_only_passes(self):
        found = growth(series(lambda n: min(n, 50) * MIB), True)
        self.assertTrue(found.flat, found)

    def test_what_shrinks_passes(self):
        self.assertTrue(growth(series(lambda n: 30 * MIB - n * MIB / 10), True).flat)

    def test_too_few_samples_say_nothing(self):
        with self.assertRaises(ValueError):
            growth(series(lambda n: 1, FEWEST), False)
        self.assertEqual(len(last_half(series(lambda n: 1, 21))), 11)


if __name__ == "__main__":
    unittest.main()
