"""Reading C++ far enough for the house rules: comments and strings blanked, functions found."""
import re

CPP = (".h", ".cc", ".cpp", ".cu")

# The parts of C++ in which nothing counts as code, tried in this order at each position.
_QUIET = re.compile(
    r"""(?P<line>//[^\n]*)
      | (?P<block>/\*.*?\*/)
      | (?P<raw>\bR"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)")
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<char>(?<![0-9A-Za-z_])(?:u8|u|U|L)?'(?:\\.|[^'\\\n])+')
    """,
    re.VERBOSE | re.DOTALL,
)


def blank(text):
    """`text` with comments, strings and characters replaced by spaces; lines stay where they are."""

    def spaces(match):
        return re.sub(r"[^\n]", " ", match.group())

    # The target of an #include is no string.
    includes = {m.start("quote") for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(?P<quote>")', text, re.M)}

    def keep(match):
        return match.group() if match.start() in includes else spaces(match)

    return _QUIET.sub(keep, text)


class Source:
    """One file: raw lines, and for C++ the code without comments."""

    def __init__(self, path, text):
        self.path = path  # relative to the root, with slashes
        self.text = text
        self.lines = text.split("\n")
        self.is_cpp = path.endswith(CPP)
        self.is_header = path.endswith(".h")
        self.is_test = re.search(r"_test[._]|(^|/)test_|^tests/", path) is not None
        self.code = blank(text) if self.is_cpp else text
        self.code_lines = self.code.split("\n")

    def includes(self):
        """Yields (line number, target, quoted)."""
        for number, line in enumerate(self.code_lines, 1):
            match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
            if match:
                yield number, match.group(1) or match.group(2), match.group(1) is not None

    def line_count(self):
        return self.text.count("\n")


_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def functions(source):
    """Yields (first line, lines, name) of each outermost function body.

    Relies on the layout clang-format gives: a body's brace follows a blank, an initialiser's does not.
    """
    code = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: re.sub(r"[^\n]", " ", m.group()), source.code,
                  flags=re.M)
    stack = []  # (kind, first line, head)
    head, head_line, line = "", 0, 1
    for position, char in enumerate(code):
        if char == "\n":
            line += 1
        if char == "{":
            inside_function = any(kind == "function" for kind, _, _ in stack)
            initialiser = position > 0 and (code[position - 1].isalnum() or code[position - 1] in "_>")
            if inside_function or initialiser or head.rstrip().endswith(("=", ",", "(", "return")):
                kind = "inner"
            elif _SCOPE.search(re.sub(r"<[^<>]*>", "", head)) and not head.rstrip().endswith(")"):
                kind = "scope"
            else:
                kind = "function" if "(" in head else "scope"
            stack.append((kind, head_line, head))
            if kind != "inner":
                head = ""
        elif char == "}" and stack:
            kind, first, text = stack.pop()
            if kind == "function":
                name = re.search(r"([\w:~]+|operator\S+)\s*\(", text)
                yield first, line - first + 1, name.group(1) if name else "function"
            if kind != "inner":
                head = ""
        elif char == ";" and not any(kind == "function" for kind, _, _ in stack):
            head = ""
        else:
            if not head.strip():
                head, head_line = "", line
            head += char
