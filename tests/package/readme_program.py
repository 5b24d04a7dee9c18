"""readme_program.py README FOLDER: the C++ and CMake blocks of the README are the files in FOLDER."""
import pathlib
import re
import sys

LINES_MAX = 30


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def main(readme, folder):
    text = pathlib.Path(readme).read_text()
    for language, name in (("cpp", "main.cc"), ("cmake", "CMakeLists.txt")):
        file = (pathlib.Path(folder) / name).read_text()
        if file not in blocks(text, language):
            sys.exit(f"README.md: no ```{language} block equals examples/readme/{name}; copy the file in")
    lines = (pathlib.Path(folder) / "main.cc").read_text().count("\n")
    if lines > LINES_MAX:
        sys.exit(f"examples/readme/main.cc has {lines} lines; the README promises at most {LINES_MAX}")


if __name__ == "__main__":
    main(*sys.argv[1:])
