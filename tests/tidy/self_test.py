#!/usr/bin/env python3
"""Plants one violation of every rule in a temporary tree and demands that exactly it is found."""
import pathlib
import tempfile
import unittest

import tidy

HEADER = "#pragma once\n"


def long_function(lines):
    return "void f() {\n" + "  g();\n" * (lines - 2) + "}\n"


# name: (rule, path, line or None, content, further files)
PLANTED = {
    "include upwards": ("layer", "src/plan/a.cc", 2, '// x\n#include "exec/engine.h"\n', {}),
    "include sideways": ("layer", "src/plan/a.cc", 1, '#include "wire/frame.h"\n', {}),
    "kernels use wire": ("layer", "src/kernels/a.cc", 1, '#include "wire/frame.h"\n', {}),
    "session and data are siblings": ("layer", "src/data/a.cc", 1, '#include "session/s.h"\n', {}),
    "path not from src": ("layer", "src/plan/a.cc", 1, '#include "schedule.h"\n', {}),
    "unknown layer": ("layer", "src/stuff/a.cc", 1, "int x;\n", {}),
    "tcp uses shm": ("transport", "src/transport/tcp/a.cc", 1, '#include "transport/shm/ring.h"\n', {}),
    "public uses src": ("public-include", "include/syncline/a.h", 2, HEADER + '#include "base/x.h"\n', {}),
    "public uses fmt": ("public-include", "include/syncline/a.h", 2, HEADER + "#include <sys/socket.h>\n",
                        {}),
    "torch below": ("torch", "src/session/a.cc", 1, "#include <torch/torch.h>\n", {}),
    "third-party header": ("third-party-header", "tools/a.h", 2, HEADER + "#include <fmt/core.h>\n",
                           {"tools/a.cc": '#include "tools/a.h"\n'}),
    "no guard": ("guard", "include/syncline/a.h", 1, "int f();\n", {}),
    "wrong guard": ("guard", "include/syncline/a.h", 1, "#ifndef A\n#define B\n#endif\n", {}),
    "getenv": ("getenv", "src/exec/a.cc", 1, 'auto x = std::getenv("A");\n', {}),
    "getenv in tools": ("getenv", "tools/a.cc", 1, 'auto x = getenv("A");\n', {}),
    "thread": ("thread", "src/exec/a.cc", 1, "std::thread t(f);\n", {}),
    "sleep": ("sleep", "src/exec/a.cc", 1, "std::this_thread::sleep_for(x);\n", {}),
    "sleep in a unit test": ("sleep", "src/exec/a_test.cc", 1, "usleep(5);\n", {}),
    "rand": ("rand", "src/exec/a.cc", 1, "int x = rand();\n", {}),
    "strcpy": ("unsafe-call", "tools/a.cc", 1, "strcpy(a, b);\n", {}),
    "sprintf": ("unsafe-call", "src/exec/a.cc", 1, "std::sprintf(a, b);\n", {}),
    "gethostbyname": ("unsafe-call", "src/exec/a.cc", 1, "::gethostbyname(a);\n", {}),
    "atoi": ("number-parsing", "tools/a.cc", 1, "int x = atoi(a);\n", {}),
    "wall clock": ("wall-clock", "src/exec/a.cc", 1, "auto t = std::chrono::system_clock::now();\n", {}),
    "printf": ("print", "src/exec/a.cc", 1, 'std::printf("x");\n', {}),
    "cout": ("print", "src/exec/a.cc", 1, 'std::cout << "x";\n', {}),
    "assert": ("assert", "src/exec/a.cc", 1, "assert(x > 0);\n", {}),
    "cassert": ("assert", "tests/proc/a.cc", 1, "#include <cassert>\n", {}),
    "using namespace": ("using-namespace", "include/syncline/a.h", 2, HEADER + "using namespace std;\n", {}),
    "file name": ("name", "src/exec/string_utils.cc", 1, "int x;\n", {}),
    "long file": ("file-length", "src/exec/a.cc", 701, "int x;\n" * 701,
                  {f"src/exec/small{i}.cc": "int x;\n" for i in range(20)}),
    "long function": ("function-length", "src/exec/a.cc", 1, long_function(70), {}),
    "long method": ("function-length", "tools/a.cc", 3,
                    "namespace n {\nstruct S {\n  int f(int x) const {\n" + "    g({1});\n" * 69
                    + "  }\n};\n}\n", {}),
    "long constructor": ("function-length", "tools/a.cc", 1,
                         "S::S(int a)\n    : a_{a}, b_(a) {\n" + "  g();\n" * 69 + "}\n", {}),
    "large median": ("file-sizes", "src", 1, None, {f"src/exec/a{i}.cc": "int x;\n" * 120 for i in range(3)}),
    "many large files": ("file-sizes", "src", 1, None,
                         {f"src/exec/a{i}.cc": "int x;\n" * (310 if i < 2 else 10) for i in range(10)}),
    "unused header": ("unused-header", "src/exec/a.h", 1, HEADER, {}),
    "trailing space": ("trailing-space", "docs/a.md", 2, "# x\ny \n", {}),
    "wide line": ("columns", "src/exec/a.cc", 1, "int " + "x" * 100 + ";\n", {}),
    "no last newline": ("last-line", "src/exec/a.cc", 1, "int x;", {}),
    "home folder": ("machine-path", "docs/a.md", 1, "see /home" + "/someone/x\n", {}),
    "dead link": ("link", "docs/design/a.md", 2, "[b](../b.md)\n[x](../x.md)\n", {"docs/b.md": "# b\n"}),
    "link out of the tree": ("link", "docs/a.md", 1, "see ../../ for more\n", {}),
    "home of root": ("machine-path", "docs/a.md", 1, "cd /ro" + "ot/x\n", {}),
}

# Looks like a violation and is none.
CLEAN = {
    "src/base/env.cc": "const char* x = getenv(name);\n",
    "src/exec/a.cc": """\
// getenv(x), assert(y) and std::thread in a comment
/* rand() and
   sleep(1) in another */
#include "exec/a.h"

#include "base/result.h"
#include "exec/sub/b.h"
#include "syncline/status.h"

static_assert(sizeof(int) == 4);
const char* text = "getenv(x) \\" assert(y) // no comment";
const char* raw = R"(rand() " sleep(1))";
const int big = 1'000'000;
const char quote = '"';
int cores = std::thread::hardware_concurrency();
int pick(Random& random) { return random.rand(); }
void strand(int operand) { run(operand); }
const int table[] = {
""" + "    1,\n" * 80 + "};\n",
    "src/exec/a.h": "#pragma once\nstruct Limits {\n" + "  int x;\n" * 80 + "};\n",
    "src/exec/sub/b.h": HEADER,
    "src/exec/a_test.cc": 'void f() { std::printf("x"); std::thread t(g); }\n',
    "src/event/t.cc": "std::thread t(f);\n",
    "src/torch/a.cc": '#include <torch/torch.h>\n#include "session/s.h"\n',
    "src/transport/tcp/a.cc": '#include "transport/endpoint.h"\n#include "transport/tcp/b.h"\n',
    "include/syncline/a.h": "#ifndef A_H_\n#define A_H_\n#include <vector>\n#endif\n",
    "tools/a.cc": '#include <fmt/core.h>\nvoid f() { std::printf("x"); }\n' + long_function(69),
    "build/x/src/a.cc": "int x = rand();   \n",
}


def findings_of(files, exceptions=None):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content.replace("@ROOT@", str(pathlib.Path(folder).resolve())))
        return tidy.check_tree(folder, exceptions or {})[0]


class Rules(unittest.TestCase):
    def test_each_rule_fires_alone(self):
        for name, (rule, path, line, content, further) in PLANTED.items():
            with self.subTest(name):
                files = dict(further)
                if content is not None:
                    files[path] = content
                found = [(f.rule, f.path, f.line) for f in findings_of(files)]
                extra = {("file-sizes", "src", 1)} if rule in ("file-length", "file-sizes") else set()
                self.assertIn((rule, path, line), found)
                self.assertLessEqual(set(found) - extra, {(rule, path, line)})

    def test_clean_tree_is_silent(self):
        self.assertEqual([str(f) for f in findings_of(CLEAN)], [])

    def test_checkout_path_is_found(self):
        found = findings_of({"docs/a.md": "cd @ROOT@/build\n"})
        self.assertEqual([f.rule for f in found], ["machine-path"])

    def test_every_banned_call_is_planted(self):
        planted = {rule for rule, *_ in PLANTED.values()}
        self.assertLessEqual({rule for rule, *_ in tidy.rules.BANNED}, planted)

    def test_exceptions_apply_and_grow_stale(self):
        files = {"src/exec/a.cc": "int x = rand();\n"}
        self.assertEqual(findings_of(files, {("rand", "src/exec/a.cc"): "why"}), [])
        stale = findings_of({"src/exec/a.cc": "int x;\n"}, {("rand", "src/exec/a.cc"): "why"})
        self.assertEqual([f.rule for f in stale], ["stale-exception"])

    def test_message_has_place_rule_and_advice(self):
        found = findings_of({"src/exec/a.cc": "\nassert(x);\n"})
        self.assertEqual(str(found[0]), "src/exec/a.cc:2: assert: 'assert(': use "
                         "SYNCLINE_ASSERT(condition, why), or a GoogleTest macro")


if __name__ == "__main__":
    unittest.main()
