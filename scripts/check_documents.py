#!/usr/bin/env python3
"""Checks that what the documents (*.md) name exists: links with their anchors, files and folders, headers, C++ names,
`isochron` commands and options, `make` targets, CMake presets, programs of the build, environment variables and tests.

    check_documents.py [--command PATH] [ROOT]   check the tree (default: the one this script is in); exit 1 on any
                                                 violation. Without --command, `isochron` commands aren't looked up.
    check_documents.py --self-test               plant one violation of every kind and demand that each is found

Names are looked up where they are marked as code. Words in capitals and <words> are placeholders, `*` and {a,b} patterns.
"""

import argparse
import functools
import pathlib
import posixpath
import re
import subprocess
import sys
import tempfile

SOURCE_SUFFIXES = ("h", "cc", "cu", "py", "sh", "cmake", "proto", "md", "json")
LEFT_OUT = {"build", "demo-out", "isochron-compare", ".cache"}  # made, not part of the tree
EXAMPLES = {"ISOCHRON_NAME", "snake_case.h"}  # of how names are formed
OUTER_HEADERS = {"cuda.h", "cudnn.h", "nvrtc.h", "cublasLt.h", "nvml.h"}

LINK = re.compile(r"\[[^\[\]]*\]\(\s*<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
LINK_DEFINITION = re.compile(r"^\[[^\[\]]+\]:\s*<?(\S+?)>?\s*$", re.M)
FENCE = re.compile(r"^(?P<indent> *)(?P<mark>```+|~~~+)(?P<info>[^\n]*)\n(?P<body>.*?)^ *(?P=mark) *$", re.M | re.S)
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)((?:(?!\n[ \t]*\n).)+?)(?<!`)\1(?!`)", re.S)
PATH = re.compile(r"(?<![\w./<>-])((?:\.?[\w-]+/)+(?:[\w.*{},<>-]*[\w*}>]|)|\.\./[\w./-]+)")
FILE_NAME = re.compile(r"(?<![\w/.*<>{}-])([\w-]+\.(?:h|cc|cu|py|sh|cmake|proto))(?![\w/-]|\.\w)")
MAKE = re.compile(r"(?:^|[\s;&$])make((?:\s+[A-Za-z_]+=\S+|\s+[a-z][a-z-]*)+)")
PRESET = re.compile(r"cmake (?:--build )?--preset[= ](\w+)")
BUILT = re.compile(r"build/\w+/bin/(\w+)")
VARIABLE = re.compile(r"\bISOCHRON_[A-Z0-9_]+\b")
TEST = re.compile(r"^([A-Z]\w*)\.([A-Z]\w*)$")
NAMESPACES = {"init": ("nn",), "ops": ("ops", "backends")}  # those that aren't one folder's own
CPP_NAME = re.compile(r"\b(nn|optim|train|data|observe|graph|init|autograd|core|memory|ops)::(~?\w+)")
INCLUDE = re.compile(r"#\s*include\s*[<\"](isochron/[^>\"]+)[>\"]")
COMMAND = re.compile(r"^\s*(?:\$ )?(?:\w+=\S+ )*(?:[\w./~]*/)?isochron ([^\n]+)")
COMMAND_END = re.compile(r"(?:;|\s(?:\||\|\||&&|>|2>|#)\s)")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*)")


def slugs_of(text):
    """The anchors that GitHub gives the headings of a document."""
    slugs, seen = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)), {}
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", FENCE.sub("", text), re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        slugs.add(f"{slug}-{count}" if count else slug)
    return slugs


def is_placeholder(text):
    return "<" in text or bool(re.search(r"(?:^|/)[A-Z][A-Z_]*(?:/|\.|$)", text) and not text.endswith(".md"))


def alternatives(pattern):
    """{a,b} written out."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if not match:
        return [pattern]
    return [result for part in match[1].split(",")
            for result in alternatives(pattern[:match.start()] + part + pattern[match.end():])]


class Tree:
    """What exists: files, names in sources, what the command's help lists."""

    def __init__(self, root, command=None):
        self.root, self.command = root, command
        self.files = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*"))
                      if path.is_file() and not self.is_left_out(path.relative_to(root))]
        self.file_set = set(self.files)
        self.names = {path.rsplit("/", 1)[-1] for path in self.files}
        self.folders = {parent.as_posix() for path in self.files for parent in pathlib.PurePosixPath(path).parents}
        self.top = {path.split("/")[0] for path in self.files if "/" in path}
        self.documents = [path for path in self.files if path.endswith(".md")]

    @staticmethod
    def is_left_out(relative):
        return relative.parts[0] in LEFT_OUT or ".git" in relative.parts or "__pycache__" in relative.parts

    def read(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    @functools.cached_property
    def sources(self):
        return {path: self.read(path) for path in self.files
                if path.rsplit(".", 1)[-1] in SOURCE_SUFFIXES[:-2] + ("txt", "in") or path in ("Makefile", ".ci/run")
                if not path.endswith("check_documents.py")}

    @functools.cached_property
    def all_sources(self):
        return "\n".join(self.sources.values())

    @functools.cached_property
    def header_words(self):
        """folder: the words of its headers."""
        words = {}
        for path, text in self.sources.items():
            if path.endswith(".h"):
                words.setdefault(path.split("/")[0], set()).update(re.findall(r"\w+", text))
        return words

    @functools.cached_property
    def make_targets(self):
        text = self.read("Makefile") if "Makefile" in self.file_set else ""
        return set(re.findall(r"^([a-z][a-z-]*):", text, re.M))

    @functools.cached_property
    def presets(self):
        path = "CMakePresets.json"
        return set(re.findall(r"\"name\": \"(\w+)\"", self.read(path))) if path in self.file_set else set()

    @functools.cached_property
    def tests(self):
        names = set()
        for path, text in self.sources.items():
            if path.startswith("tests/"):
                names.update(re.findall(r"TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", text))
        return names

    @functools.cached_property
    def slugs(self):
        return {path: slugs_of(self.read(path)) for path in self.documents}

    @functools.lru_cache(maxsize=None)
    def help_of(self, *words):
        """What `isochron words... --help` prints; None where there is no such command."""
        run = subprocess.run([self.command, *words, "--help"], capture_output=True, text=True, timeout=60, check=False)
        return run.stdout if run.returncode == 0 else None

    def subcommands(self, *words):
        """The names below the headings of a help text that end in `s:`, such as "Subcommands:"."""
        listed = re.search(r"^(?:Subcommands|SUBCOMMANDS):\n((?:.+\n)+)", self.help_of(*words) or "", re.M)
        return re.findall(r"^  (\w[\w-]*)", listed[1], re.M) if listed else []

    @functools.cached_property
    def all_options(self):
        """The options of every command, and of the scripts."""
        texts = [text for path, text in self.sources.items() if path.endswith((".py", ".sh"))]
        if self.command:
            texts += [self.help_of(name, *more) or "" for name in self.subcommands()
                      for more in [()] + [(child,) for child in self.subcommands(name)]]
        return {option for text in texts for option in OPTION.findall(text)}

    def exists(self, path, beside=""):
        """A path of the tree, of the document's folder, or as includes spell it; patterns need one match."""
        path = path.rstrip("/")
        for one in alternatives(path):
            one = re.sub(r"<\w+>", "*", one)
            found = False
            for candidate in (one, f"{beside}/{one}" if beside else one, one.removeprefix("isochron/")):
                candidate = posixpath.normpath(candidate)
                known = self.file_set | self.folders
                found |= candidate in known or "*" in candidate and any(
                    pathlib.PurePosixPath(file).match(candidate) for file in known)
            if not found:
                return False
        return True


class Checker:
    def __init__(self, tree, document):
        self.tree, self.document = tree, document
        self.folder = document.rpartition("/")[0]
        self.text = tree.read(document)
        self.found = []

    def report(self, offset, text):
        line = self.text.count("\n", 0, offset) + 1
        entry = f"{self.document}:{line}: {text}"
        if entry not in self.found:
            self.found.append(entry)

    def run(self):
        blocks = [(m.start("body"), m["body"]) for m in FENCE.finditer(self.text)]
        prose = FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), self.text)
        spans = [(m.start(2), m[2]) for m in CODE_SPAN.finditer(prose)]
        plain = CODE_SPAN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), prose)
        # A link's text may be code, which is blank by now.
        for match in [*LINK.finditer(plain), *LINK_DEFINITION.finditer(plain)]:
            self.link(match.start(1), match[1])
        for offset, body in blocks:
            self.code(offset, body, block=True)
            position = offset
            for line in re.split(r"(?<=\n)(?! {4,}\[?--)", body):  # an option may stand in the line below
                if re.match(r"\s*(?:\$ )?(?:[\w./]*/)?(?:make|isochron|cmake) ", line):
                    self.shell(position, re.sub(r"\n(?=.)", " ", line))
                position += len(line)
        for offset, span in spans:
            span = re.sub(r"\s*\n\s*(?:> ?)?", lambda m: " " * len(m[0]), span)
            self.code(offset, span, block=False)
            self.shell(offset, span)
            self.span(offset, span)
        return self.found

    def link(self, offset, target):
        if re.match(r"[a-z]+:", target):
            return
        path, _, anchor = target.partition("#")
        if path and not self.tree.exists(path, self.folder):
            return self.report(offset, f"link to {path}, which isn't there")
        goal = posixpath.normpath(f"{self.folder}/{path}" if self.folder else path) if path else self.document
        if anchor and goal.endswith(".md") and anchor not in self.tree.slugs.get(goal, set()):
            self.report(offset, f"link to #{anchor}, which is no heading of {goal}")

    def code(self, offset, text, block):
        """Checks what may appear in a block as well as in a line."""
        for match in INCLUDE.finditer(text):
            if not self.tree.exists(match[1]):
                self.report(offset + match.start(), f"header {match[1]} isn't there")
        for match in CPP_NAME.finditer(text):
            folders = NAMESPACES.get(match[1], (match[1],))
            if not any(match[2] in self.tree.header_words.get(folder, ()) for folder in folders):
                self.report(offset + match.start(), f"{match[0]} is in no header of {' or '.join(folders)}/")
        for match in VARIABLE.finditer(text):
            if match[0] not in self.tree.all_sources and match[0] not in EXAMPLES:
                self.report(offset + match.start(), f"{match[0]} is nowhere in the sources")
        for match in BUILT.finditer(text):
            if not self.is_program(match[1]):
                self.report(offset + match.start(), f"the build makes no program {match[1]}")
        if not block:
            for match in PATH.finditer(text):
                self.path(offset + match.start(), match[1])
            for match in FILE_NAME.finditer(text):
                if match[1] not in self.tree.names | OUTER_HEADERS | EXAMPLES:
                    self.report(offset + match.start(), f"no file is called {match[1]}")

    def is_program(self, name):
        tree = self.tree
        return (name in ("isochron", "fuzz") or f"bench/{name}.cc" in tree.file_set
                or name.endswith("_test") and f"tests/{name.removesuffix('_test')}" in tree.folders
                or name.startswith("example_") and f"examples/{name.removeprefix('example_')}.cc" in tree.file_set)

    def path(self, offset, path):
        first, last = path.split("/")[0], path.rsplit("/", 1)[-1]
        if first != "isochron" and first not in self.tree.top or first in LEFT_OUT or path == "isochron/":
            return
        if is_placeholder(re.sub(r"<\w+>", "x", path)) or self.tree.exists(path, self.folder):
            return
        if f'"{path}"' in self.tree.all_sources or f'"{last}"' in self.tree.all_sources:
            return  # a tag or category that a program writes
        self.report(offset, f"{path} isn't there")

    def shell(self, offset, text):
        for match in MAKE.finditer(text):
            for word in match[1].split():
                name, is_variable, _ = word.partition("=")
                if is_variable and not re.search(rf"^{name} *\?=", self.tree.read("Makefile"), re.M):
                    self.report(offset, f"make knows no variable {name}")
                elif not is_variable and name not in self.tree.make_targets:
                    self.report(offset, f"make has no target {name}")
        for match in PRESET.finditer(text):
            if match[1] not in self.tree.presets:
                self.report(offset, f"CMake has no preset {match[1]}")
        if self.tree.command:
            for match in COMMAND.finditer(text):
                self.command(offset, COMMAND_END.split(match[1])[0].split())

    def command(self, offset, words):
        """`words` follow `isochron`: commands, then options and arguments."""
        tree = self.tree
        path = []
        for word in words:
            children = tree.subcommands(*path)
            if not children or word.startswith("-"):
                break
            if re.fullmatch(r"\[?[A-Z]+(?:\.\.\.)?\]?", word):
                path = None  # any of them
                break
            if word not in children:
                return self.report(offset, f"isochron {' '.join(path)} has no command {word}".replace("  ", " "))
            path.append(word)
        known = tree.all_options
        if path is not None:
            known = set(OPTION.findall("".join(tree.help_of(*path[:i]) or "" for i in range(len(path) + 1))))
        for option in OPTION.findall(" ".join(words)):
            if option not in known | {"--help"}:
                self.report(offset, f"isochron {' '.join(path or ['COMMAND'])} has no option {option}")

    def span(self, offset, text):
        """A line of code as a whole."""
        if match := TEST.match(text):
            if (match[1], match[2]) not in self.tree.tests:
                self.report(offset, f"no test is called {text}")
        option = re.match(r"(--[a-z][a-z0-9-]*)(?:[ =]\S+)?$", text)
        if option and self.tree.command and option[1] not in self.tree.all_options:
            self.report(offset, f"no command has the option {option[1]}")


def check_tree(tree):
    return [violation for document in tree.documents
            for violation in Checker(tree, document).run()]


HELP = {"": "Subcommands:\n  train    trains\n  plan     plans\n",
        "train": "  --epochs INT\n", "plan": "  --capacity INT\n"}
PROGRAM = """#!/bin/sh
[ "$1" = --help ] && set -- ""
case "$1" in
%s*) exit 2;;
esac
"""
CLEAN = """# A title, and `code` in it
## Twice
## Twice
[here](#twice-1) [there](docs/other.md#what-is-it) [file](core/a.h) [web](https://example.org/x#y) `core/a.h` `a.h`
`core/` `isochron/core/a.h` `tests/<folder>/<name>_test.cc` `core/{a,b}.h` `core/*.h` `docs/NAME/*.h` `make all`
`nn::Dense` `Suite.Test` `isochron train MODEL --epochs 3` `isochron COMMAND --capacity 2` `--epochs` `ISOCHRON_HOME`
`build/release/bin/core_test` `memory/tag`
```
isochron train digits --epochs 2 | tail --lines 3
make all NAME=1
cmake --preset release
#include "isochron/core/a.h"
```
"""
PLANTED = {
    "link to a file": "[x](docs/none.md)",
    "link to a heading": "[x](#none)",
    "link to a heading of another document": "[x](docs/other.md#none)",
    "link definition": "\n[x]: none.md",
    "file": "`core/none.h`",
    "file by its name": "`none.cc`",
    "folder": "`core/none/`",
    "header as included": "`isochron/core/none.h`",
    "pattern": "`core/none*.h`",
    "one of several": "`core/{a,none}.h`",
    "include in a block": "```\n#include <isochron/core/none.h>\n```",
    "C++ name": "`nn::None`",
    "environment variable": "`ISOCHRON_NONE`",
    "program": "`build/release/bin/none_test`",
    "test": "`Suite.None`",
    "make target": "`make none`",
    "make target over a line's end": "`make\nnone`",
    "make variable": "```\nmake all NONE=1\n```",
    "preset": "`cmake --preset none`",
    "command": "`isochron none`",
    "option of another command": "`isochron train --capacity 1`",
    "option in a block": "```\n$ isochron plan --none\n```",
    "option in the line below": "```\nisochron plan FILE|FOLDER --capacity 1\n              [--none]\n```",
    "option of any command": "`isochron COMMAND --none`",
    "option alone": "`--none`",
}


def self_test():
    files = {
        "Makefile": "NAME ?= x\nall: deps  ## all\n",
        "CMakePresets.json": '{"configurePresets": [{ "name": "release" }]}\n',
        "core/a.h": "// core, see core/b.h and isochron/core/b.h\n",
        "core/b.h": "",
        "nn/layers/layers.h": "class Dense;\n",
        "apps/main.cc": 'getenv("ISOCHRON_HOME"); scalar("memory/tag");\n',
        "memory/a.h": "",
        "tests/core/a_test.cc": "TEST(Suite, Test) {}\n",
        "docs/other.md": "# Other\n### What is it?\n[back](../README.md#twice)\n",
        "build/made.md": "[x](none.md)\n",
    }
    missed, rejected = [], []
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        command = root / "build" / "isochron"
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        command.write_text(PROGRAM % "".join(f"'{word}') printf '{text}';;\n" for word, text in HELP.items()))
        command.chmod(0o755)

        def found_in(text):
            (root / "README.md").write_text(text, encoding="utf-8")
            return check_tree(Tree(root, str(command)))

        rejected = found_in(CLEAN)
        for what, text in PLANTED.items():
            found = found_in(f"{CLEAN}\n{text}\n")
            line = CLEAN.count("\n") + 2
            if len(found) != 1 or not found[0].startswith((f"README.md:{line}: ", f"README.md:{line + 1}: ")):
                missed.append(f"{what}: expected one violation in line {line} or the next, found {found}")
    for text in [f"a clean document was rejected: {rejected}"] * bool(rejected) + missed:
        print(f"self-test: {text}", file=sys.stderr)
    print(f"documents: self-test, {len(PLANTED) - len(missed)} of {len(PLANTED)} planted violations found")
    return 1 if missed or rejected else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--command", help="the isochron program")
    options = parser.parse_args()
    tree = Tree(options.root, options.command)
    violations = check_tree(tree)
    for violation in violations:
        print(violation, file=sys.stderr)
    print(f"documents: {len(tree.documents)} documents, {len(violations)} violations")
    return 1 if violations or not tree.documents else 0


if __name__ == "__main__":
    sys.exit(main())
