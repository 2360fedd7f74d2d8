"""What is asked again is not computed again: most cases of a changed policy are those of the unchanged one."""

import functools
import json


def remembered(function):
    """For functions of plain values (what JSON can say), that give such values."""
    known = {}

    @functools.wraps(function)
    def ask(*arguments, **named):
        key = json.dumps([arguments, named], sort_keys=True)
        if key not in known:
            known[key] = json.dumps(function(*arguments, **named))
        return json.loads(known[key])

    return ask


def copied(value):
    """As copy.deepcopy, of plain values and several times as fast."""
    return json.loads(json.dumps(value))
