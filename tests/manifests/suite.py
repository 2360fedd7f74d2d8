"""Runs the tests of this directory and ends with one line that counts them."""

import sys
import unittest


def main() -> int:
    arguments = sys.argv[1:]
    names = [name for name in arguments if not name.startswith("-")]
    verbosity = 2 if "-v" in arguments else 1
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names) if names else loader.discover(".")
    result = unittest.TextTestRunner(verbosity=verbosity).run(suite)
    failed = len(result.failures) + len(result.errors)
    if result.testsRun == 0:
        print("no test was found")
        return 1
    skipped = len(result.skipped)
    more = f", {skipped} skipped" if skipped else ""
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed{more}")
    return 1 if failed else 0


sys.exit(main())
