"""The settings that the agent knows, out of docs/config.md, which is made from the code."""

import functools
import re

from render import ROOT


@functools.cache
def _documented() -> tuple:
    text = (ROOT / "docs" / "config.md").read_text()
    toml = text.split("```toml\n", 1)[1].split("```", 1)[0]
    names, found, table = set(), set(), ""
    for line in toml.splitlines():
        if section := re.fullmatch(r"\[([a-z_.]+)\]", line):
            table = section[1]
        elif variables := re.findall(r"\bSELVAGE_[A-Z_]+", line):
            names.update(variables)
        elif setting := re.match(r"(?:# )?([a-z_]+) =", line):
            found.add(f"{table}.{setting[1]}")
    return names, found


def variables() -> set:
    return _documented()[0]


def keys() -> set:
    return _documented()[1]


def keys_of(table: dict, path: str = "") -> list:
    """Paths of the values in a settings file."""
    found = []
    for name, value in table.items():
        here = f"{path}.{name}" if path else name
        found += keys_of(value, here) if isinstance(value, dict) else [here]
    return found
