"""What is shipped holds."""

import unittest

import rules
from rules import ROOT


class Shipped(unittest.TestCase):
    def test_promtool_takes_the_rules(self):
        self.assertEqual(rules.promtool_check(ROOT), [])

    def test_unit_tests(self):
        self.assertEqual(rules.promtool_test(ROOT), [])

    def test_each_alert_and_record_has_its_cases(self):
        self.assertEqual(rules.completeness(ROOT), [])

    def test_metrics_reasons_labels_annotations(self):
        self.assertEqual(rules.names(ROOT), [])

    def test_generated_files(self):
        self.assertEqual(rules.generated(ROOT), [])

    def test_alertmanager_s_configuration(self):
        self.assertEqual(rules.amtool(ROOT), [])

    def test_inhibition_has_an_order(self):
        self.assertEqual(rules.inhibition(ROOT), [])
