#!/usr/bin/env python3
"""Joins the tests of several build folders into one list, so that one ctest run and one summary cover all.

join_tests.py OUT NAME:FOLDER:PATTERN...

Writes OUT/CTestTestfile.cmake with every test of each FOLDER whose name matches PATTERN (a regular
expression, found anywhere). Tests of the first folder keep their names, others become NAME/test.
"""
import json
import pathlib
import re
import subprocess
import sys


def quoted(text):
    """A CMake bracket argument: nothing in it is special."""
    equals = "="
    while f"]{equals}]" in text:
        equals += "="
    newline = "\n" if text.startswith("\n") else ""  # CMake drops a newline right after the bracket
    return f"[{equals}[{newline}{text}]{equals}]"


def value_of(value):
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, list):
        return ";".join(str(item).replace(";", "\\;") for item in value)
    return str(value)


def tests_of(folder):
    listing = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], check=True,
                             capture_output=True, text=True).stdout
    return json.loads(listing)["tests"]


def lines_of(test, prefix):
    name = quoted(prefix + test["name"])
    yield f"add_test({name} {' '.join(quoted(word) for word in test['command'])})"
    properties = {item["name"]: item["value"] for item in test.get("properties", [])}
    labels = properties.get("LABELS", [])
    if prefix:
        properties["LABELS"] = labels + [prefix.rstrip("/")]
        properties.setdefault("COST", 100)  # instrumented programs take longest: ctest starts them first
        if isinstance(properties.get("DEPENDS"), list):
            properties["DEPENDS"] = [prefix + other for other in properties["DEPENDS"]]
    for key, value in properties.items():
        yield f"set_tests_properties({name} PROPERTIES {key} {quoted(value_of(value))})"


def main(out, *folders):
    lines = []
    for number, entry in enumerate(folders):
        name, folder, pattern = entry.split(":", 2)
        prefix = f"{name}/" if number else ""
        chosen = [test for test in tests_of(folder) if re.search(pattern, test["name"])]
        missing = [test["name"] for test in chosen if "command" not in test]
        if missing:
            sys.exit(f"join_tests: not built in {folder}: {', '.join(missing)}")
        if not chosen:
            sys.exit(f"join_tests: no test of {folder} matches {pattern}")
        for test in chosen:
            lines.extend(lines_of(test, prefix))
    target = pathlib.Path(out)
    target.mkdir(parents=True, exist_ok=True)
    (target / "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
