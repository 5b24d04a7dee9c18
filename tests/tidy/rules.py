"""The house rules. Each is a function from one Source, or from all of them, to findings."""
import re
import statistics

from source import functions

# An include may go to the own layer or to a lower level.
LEVELS = {
    "base": 0,
    "kernels": 1,  # below its neighbours of the design, since frames need its checksum
    "wire": 2, "plan": 2, "compress": 2, "topo": 2,
    "event": 3,
    "transport": 4,
    "cluster": 5, "observe": 5,
    "exec": 6,
    "collective": 7, "ps": 7, "checkpoint": 7,  # files of tensors: stores of a session write them too
    "session": 8, "data": 8,
    "torch": 9,
    "tools": 10,
}
TRANSPORTS = ("inproc", "sim", "shm", "tcp", "ucx", "cuda")
TORCH_PLACES = ("src/torch/", "include/syncline/torch/", "tools/", "examples/", "tests/", "bench/",
                "python/")
THIRD_PARTY = re.compile(
    r"(fmt|spdlog|nlohmann|CLI|toml\+\+|httplib|hwloc|openssl|hwy|rapidcheck|gtest|gmock|benchmark|uv)"
    r"([./]|$)|z(lib|std|conf)\.h|xxhash\.h|jpeglib\.h|archive(_entry)?\.h")
LINES_MAX = 700
LINES_USUAL = 300
MEDIAN_MAX = 100
FUNCTION_LINES = 70
COLUMNS_MAX = 100


class Finding:
    def __init__(self, path, line, rule, what):
        self.path, self.line, self.rule, self.what = path, line, rule, what

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


def layer_of(path):
    parts = path.split("/")
    if parts[0] == "tools":
        return "tools"
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def check_layers(source):
    own = layer_of(source.path)
    if own is None:
        return
    if own not in LEVELS:
        yield Finding(source.path, 1, "layer", f"'{own}' is no layer; add it to LEVELS or move the file")
        return
    for line, target, quoted in source.includes():
        other = target.split("/")[0]
        if not quoted or other == "syncline":
            continue
        if other not in LEVELS or "/" not in target:
            if not source.is_test and own != "tools":
                yield Finding(source.path, line, "layer",
                              f'"{target}": write paths from src/ ("base/result.h")')
        elif other != own and LEVELS[other] >= LEVELS[own]:
            yield Finding(source.path, line, "layer",
                          f'{own} may not include "{target}": {other} is not below it; move the code '
                          "down or pass it in from above")


def check_transports(source):
    parts = source.path.split("/")
    if parts[:2] != ["src", "transport"] or parts[2] not in TRANSPORTS:
        return
    for line, target, _ in source.includes():
        match = re.match(r"transport/(\w+)/", target)
        if match and match.group(1) in TRANSPORTS and match.group(1) != parts[2]:
            yield Finding(source.path, line, "transport",
                          f'{parts[2]} may not include "{target}": a backend must go away with its '
                          "folder; share through transport/ itself")


def check_public(source):
    if not source.path.startswith("include/"):
        return
    for line, target, quoted in source.includes():
        if quoted and not target.startswith("syncline/"):
            yield Finding(source.path, line, "public-include",
                          f'"{target}": public headers include only the standard library and syncline/')
        if not quoted and "/" in target and not source.path.startswith("include/syncline/torch/"):
            yield Finding(source.path, line, "public-include",
                          f"<{target}>: public headers include only the standard library and syncline/")


def check_torch(source):
    if source.path.startswith(TORCH_PLACES):
        return
    for line, target, _ in source.includes():
        if re.match(r"(torch|ATen|c10)/", target):
            yield Finding(source.path, line, "torch",
                          f"<{target}>: torch belongs in src/torch and include/syncline/torch")


def check_third_party(source):
    if not source.is_header or source.is_test:
        return
    for line, target, quoted in source.includes():
        if not quoted and THIRD_PARTY.match(target):
            yield Finding(source.path, line, "third-party-header",
                          f"<{target}>: include it in a .cc file, forward-declare here")


def check_guard(source):
    if source.is_header and not re.search(r"^#pragma once$|^#ifndef (\w+)\n#define \1$", source.code,
                                          re.M):
        yield Finding(source.path, 1, "guard", "begin with #pragma once (public headers: a guard)")


def in_product(source):
    return source.path.startswith(("src/", "include/")) and not source.is_test


def in_src(source):
    return source.path.startswith("src/")


def everywhere(_):
    return True


def outside(*prefixes, within=in_product):
    return lambda source: within(source) and not source.path.startswith(prefixes)


# (rule, pattern on code without comments and strings, where it applies, what to do)
BANNED = [
    ("getenv", r"\b(secure_)?getenv\s*\(",
     lambda s: s.path.startswith(("src/", "include/", "tools/")) and s.path != "src/base/env.cc",
     "call env() of base/env.h"),
    ("thread", r"\bstd::(thread\b(?!::)|jthread\b|async\b)|\bpthread_create\s*\(", outside("src/event/"),
     "start threads through event/thread.h"),
    ("sleep", r"\b(sleep|usleep|nanosleep|clock_nanosleep|sleep_for|sleep_until)\s*\(", in_src,
     "wait for an event with a deadline, or use a timer of the poller"),
    ("rand", r"(?<![\w.>])s?rand\s*\(|\bdrand48\s*\(", everywhere,
     "use a seeded generator of <random>"),
    ("unsafe-call", r"(?<![\w.>])(strcpy|strcat|v?sprintf|gets|strtok|gethostbyname|inet_ntoa)\s*\(",
     everywhere, "use std::string, snprintf, getaddrinfo or inet_ntop"),
    ("number-parsing", r"(?<![\w.>])(atoi|atol|atof)\s*\(", everywhere,
     "use std::from_chars, which tells errors"),
    ("wall-clock", r"\bsystem_clock\b|\bCLOCK_REALTIME\b", outside("src/base/clock."),
     "deadlines need the steady clock of base/clock.h"),
    ("print", r"(?<![\w.>])(f?printf|puts|fputs|putchar)\s*\(|\bstd::(cout|cerr)\b", in_product,
     "return a Status or log; the library does not print"),
    ("assert", r"(?<![\w.])assert\s*\(|#\s*include\s*<(cassert|assert\.h)>", everywhere,
     "use SYNCLINE_ASSERT(condition, why), or a GoogleTest macro"),
    ("using-namespace", r"^using\s+namespace\b", lambda s: s.is_header,
     "a header must not open namespaces for others"),
]


def check_banned(source):
    for rule, pattern, applies, advice in BANNED:
        if not applies(source):
            continue
        for number, line in enumerate(source.code_lines, 1):
            match = re.search(pattern, line)
            if match:
                yield Finding(source.path, number, rule, f"'{match.group().strip()}': {advice}")


def check_names(source):
    stem = re.sub(r"(_test)?\.\w+$", "", source.path.split("/")[-1])
    for part in stem.split("_"):
        if part in ("util", "utils", "helper", "helpers", "common", "misc"):
            yield Finding(source.path, 1, "name", f"'{part}' says nothing; name the file after its content")


def check_length(source):
    lines = source.line_count()
    if lines > LINES_MAX:
        yield Finding(source.path, lines, "file-length",
                      f"{lines} lines, the limit is {LINES_MAX}; split it by subject")
    for first, length, name in functions(source):
        if length >= FUNCTION_LINES:
            yield Finding(source.path, first, "function-length",
                          f"{name} has {length} lines, under {FUNCTION_LINES} is the rule; extract steps")


def check_sizes(sources):
    """Over the tree: most files are small."""
    sizes = sorted(s.line_count() for s in sources if in_src(s))
    if not sizes:
        return
    large = sum(size >= LINES_USUAL for size in sizes)
    if large * 10 > len(sizes):
        yield Finding("src", 1, "file-sizes",
                      f"{large} of {len(sizes)} files have {LINES_USUAL} lines or more; nine of ten "
                      "should be smaller")
    median = statistics.median(sizes)
    if median > MEDIAN_MAX:
        yield Finding("src", 1, "file-sizes",
                      f"the median file has {median:g} lines, {MEDIAN_MAX} is the limit; split by subject")


def check_unused(sources):
    """Over the tree: a header nobody includes."""
    included = {target for source in sources for _, target, _ in source.includes()}
    for source in sources:
        if not source.is_header or source.path.startswith("include/"):
            continue
        parts = source.path.split("/")
        if not any("/".join(parts[i:]) in included for i in range(len(parts))):
            yield Finding(source.path, 1, "unused-header", "nobody includes it; delete it")


def check_text(source):
    """For every kind of text file."""
    for number, line in enumerate(source.lines, 1):
        if line != line.rstrip():
            yield Finding(source.path, number, "trailing-space", "remove blanks at the end of the line")
        if source.is_cpp and len(line) > COLUMNS_MAX and not re.search(r"https?://\S+$", line):
            yield Finding(source.path, number, "columns",
                          f"{len(line)} columns, {COLUMNS_MAX} is the limit; run clang-format")
    if source.text and not source.text.endswith("\n"):
        yield Finding(source.path, len(source.lines), "last-line", "end the file with a newline")


def machine_paths(root):
    """Pattern of paths that exist on one machine only: homes, this checkout and the folder it is in."""
    shared = ("/", "/tmp", "/var/tmp", "/usr", "/usr/src", "/usr/local", "/opt", "/srv", "/home", "/root",
              "/build")
    folders = [str(root)] + ([str(root.parent)] if str(root.parent) not in shared else [])
    own = "|".join(re.escape(folder) + r"(?=[/\s\"'`:;,)]|$)" for folder in folders)
    return re.compile(rf"(?<![\w.])(/(home|Users)/\w\w|/roo[t]/|{own})")


def check_machine(source, pattern):
    for number, line in enumerate(source.lines, 1):
        match = pattern.search(line)
        if match:
            yield Finding(source.path, number, "machine-path",
                          f"'{match.group()}' exists on one machine; take it from an argument or the build")


def check_links(source, root):
    """In pages: a relative path that leads nowhere, or out of the tree."""
    if not source.path.endswith(".md"):
        return
    folder = (root / source.path).parent
    for number, line in enumerate(source.lines, 1):
        for match in re.finditer(r"(?<![\w/.])(\.\./)+[\w./-]*", line):
            target = (folder / match.group().rstrip(".")).resolve()
            if not target.exists() or not target.is_relative_to(root):
                yield Finding(source.path, number, "link",
                              f"'{match.group()}' is not in the tree; name a file of the project")


CPP_RULES = [check_layers, check_transports, check_public, check_torch, check_third_party, check_guard,
             check_banned, check_names, check_length]
TREE_RULES = [check_sizes, check_unused]
