"""The example configuration on a real Alertmanager."""

import unittest

import rules
import server
from cases import CASES, labels_of
from rules import ROOT

CONFIG = ROOT / "alerts/alertmanager.yaml"


def complaints(root, patience=120.0) -> list:
    """All cases at once, kept apart by the label `cluster`; the first has none."""
    examples = rules.examples(root)
    clusters = [None, *(f"case-{number}" for number in range(1, len(CASES)))]
    posted, expected, title_of = [], [], {}
    for cluster, (title, (stands, told)) in zip(clusters, CASES.items()):
        title_of[cluster] = title
        posted += [labels_of(text, examples, cluster) for text in stands]
        expected += [labels_of(text, examples, cluster) for text in told]
    with server.alertmanager(root / "alerts/alertmanager.yaml") as url:
        found = server.settled(url, posted, expected, patience)
    return _differences(found, expected, title_of)


def _differences(found: list, expected: list, title_of: dict) -> list:
    lines = []
    for words, some, others in (("is told", found, expected), ("is not told", expected, found)):
        for labels in some:
            if labels not in others:
                title = title_of.get(labels.get("cluster"), "")
                lines.append(f"{title}: {labels['alertname']} {labels.get('instance', '')} {words}")
    return lines


class RealAlertmanager(unittest.TestCase):
    maxDiff = None

    def test_what_is_told(self):
        self.assertEqual(complaints(ROOT), [])

    def test_it_mutes_what_the_model_says(self):
        """The order of all pairs is judged by a model of the rules (rules.Inhibition). Here each pair
        of alerts stands alone in a cluster of its own, and Alertmanager must agree."""
        examples, mutes = rules.examples(ROOT), rules.Inhibition(ROOT).mutes
        posted, expected, title_of = [], [], {}
        for index, one in enumerate(examples):
            for other in examples[index + 1:]:
                cluster = f"pair-{len(title_of)}"
                title_of[cluster] = f"{one['alertname']} and {other['alertname']}"
                pair = [{**each, "cluster": cluster} for each in (one, other)]
                posted += pair
                expected += [
                    labels
                    for labels, by in ((pair[0], pair[1]), (pair[1], pair[0]))
                    if not mutes(by, labels)
                ]
        self.assertGreater(len(title_of), 200)
        with server.alertmanager(CONFIG) as url:
            found = server.settled(url, posted, expected, 120.0)
        keyed = {tuple(sorted(each.items())) for each in found}
        wanted = {tuple(sorted(each.items())) for each in expected}
        self.assertEqual(sorted(keyed ^ wanted)[:5], [])
