#!/usr/bin/env python3
"""Checks the house rules over the tree: tidy.py ROOT. Prints one line per finding, exits 1 if any."""
import os
import pathlib
import sys

import rules
from source import CPP, Source

FOLDERS = ("include", "src", "tools", "examples", "bench", "tests", "python", "cmake", "docs")
TEXT = CPP + (".py", ".sh", ".cmake", ".md", ".txt", ".toml", ".yml", ".json")
SKIPPED = ("build", "out", "__pycache__", ".git")

# (rule, path) -> why it is right there. Keep it short; an entry that no longer applies is a finding.
EXCEPTIONS = {
    ("third-party-header", "src/kernels/simd-inl.h"):
        "Highway compiles this file once per instruction set; only simd.cc includes it",
    ("third-party-header", "src/kernels/half-inl.h"): "as simd-inl.h",
    ("guard", "src/kernels/half-inl.h"): "as simd-inl.h",
    ("guard", "src/kernels/simd-inl.h"): "included many times on purpose; its guard toggles",
    ("wall-clock", "src/session/log.cc"): "log lines carry the time of day",
    ("print", "src/base/assert.cc"): "the last words of a process that is about to abort",
}


def read_tree(root):
    sources = []
    for name in sorted(os.listdir(root)):
        path = root / name
        if path.is_file() and (path.suffix in TEXT or name == "dev"):
            sources.append(Source(name, path.read_text(encoding="utf-8")))
    for folder in FOLDERS:
        for base, folders, files in os.walk(root / folder):
            folders[:] = sorted(f for f in folders if f not in SKIPPED)
            for name in sorted(files):
                path = pathlib.Path(base) / name
                if path.suffix in TEXT:
                    relative = path.relative_to(root).as_posix()
                    sources.append(Source(relative, path.read_text(encoding="utf-8")))
    return sources


def check_tree(root, exceptions):
    root = pathlib.Path(root).resolve()
    sources = read_tree(root)
    cpp = [source for source in sources if source.is_cpp]
    machine = rules.machine_paths(root)
    findings = []
    for source in sources:
        findings += rules.check_text(source)
        findings += rules.check_machine(source, machine)
        findings += rules.check_links(source, root)
    for source in cpp:
        for rule in rules.CPP_RULES:
            findings += rule(source)
    for rule in rules.TREE_RULES:
        findings += rule(cpp)
    used = {(f.rule, f.path) for f in findings} & set(exceptions)
    findings = [f for f in findings if (f.rule, f.path) not in used]
    for rule, path in sorted(set(exceptions) - used):
        findings.append(rules.Finding(path, 1, "stale-exception",
                                      f"'{rule}' does not fire here any more; remove it from EXCEPTIONS"))
    return sorted(findings, key=lambda f: (f.path, f.line, f.rule)), len(sources)


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print("usage: tidy.py ROOT", file=sys.stderr)
        return 2
    findings, files = check_tree(sys.argv[1], EXCEPTIONS)
    for finding in findings:
        print(finding)
    print(f"tidy: {files} files, {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
