#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums the test reports of a build and prints "N passed, N failed, N skipped" alone on the last line.

    tools/count-tests.py [--since EPOCH_SECONDS] [REPOSITORY]

Reads every target/surefire-reports/TEST-*.xml and target/failsafe-reports/TEST-*.xml. Names each
failed test before the counts, and each unstable one: it failed, and passed when it was run again. Exits 1 when a test failed, 2 when there is no report or no test ran, so
that a build that tested nothing is not taken for a green one. --since leaves out older reports.
"""

import argparse
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

FOLDERS = ("surefire-reports", "failsafe-reports")


def reports(root: pathlib.Path, since: float) -> list[pathlib.Path]:
    found = []
    for folder in FOLDERS:
        for pattern in (f"target/{folder}/TEST-*.xml", f"*/target/{folder}/TEST-*.xml"):
            found += root.glob(pattern)
    return sorted(path for path in found if path.stat().st_mtime >= since)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--since", type=float, default=0.0)
    parser.add_argument("repository", type=pathlib.Path, nargs="?")
    options = parser.parse_args()
    root = options.repository or pathlib.Path(__file__).resolve().parent.parent

    passed = failed = skipped = 0
    unreadable = []
    found = reports(root, options.since)
    for path in found:
        try:
            suite = ElementTree.parse(path).getroot()
        except ElementTree.ParseError as problem:
            unreadable.append(f"{path.relative_to(root)}: {problem}")
            continue
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
                print(f"FAILED {case.get('classname')}.{case.get('name')}")
            elif case.find("skipped") is not None:
                skipped += 1
            else:
                passed += 1
                if case.find("flakyFailure") is not None or case.find("flakyError") is not None:
                    print(f"UNSTABLE {case.get('classname')}.{case.get('name')}")

    # A report that a dying test process left half written hides tests that did not pass.
    failed += len(unreadable)
    for line in unreadable:
        print(f"UNREADABLE REPORT {line}")
    if not found:
        print(f"no test report under {root}/*/target: nothing was tested")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    if failed:
        return 1
    return 0 if passed else 2


if __name__ == "__main__":
    sys.exit(main())
