#!/usr/bin/env python3
"""Checks the rules that the compiler doesn't: which folder may include which, and what a public header may contain.

    check_layers.py [ROOT]       check the tree (default: the one this script is in); exit 1 on any violation
    check_layers.py --self-test  plant one violation of every rule in a temporary tree and demand that each is found
"""

import pathlib
import re
import sys
import tempfile

# What each folder may include, besides itself. apps, examples and bench may include every library folder.
ALLOWED = {
    "core": set(),
    "memory": {"core"},
    "comm": {"core", "memory"},
    "graph": {"core", "memory"},
    "ops": {"core", "memory", "comm", "graph"},
    "backends": {"core", "memory", "comm", "graph", "ops"},
    "autograd": {"core", "memory", "graph", "ops"},
    "optim": {"core", "memory", "comm", "graph", "ops", "autograd"},
    "nn": {"core", "memory", "comm", "graph", "ops", "autograd", "optim"},
    "data": {"core", "memory"},
    "observe": {"core"},
    "train": {"core", "memory", "comm", "graph", "ops", "backends", "autograd", "optim", "nn", "data", "observe"},
}
PROGRAM_FOLDERS = ("apps", "examples", "bench")
EVERYTHING = "isochron.h"  # the library in one include, for programs alone; it stands beside the folders
BESIDE_EVERYTHING = ("isochron/apps/allocation_counter.h",)  # changes what a program is linked with
OTHER_FOLDERS = ("tests", "scripts", "cmake")
# Headers in these folders, and headers with this name ending in any folder, are not installed, so they may use the libraries
# behind the kernels.
PRIVATE_FOLDERS = ("backends/cpu/", "backends/cuda/")
PRIVATE_NAME = "-inl.h"
FOREIGN_HEADER = re.compile(
    r"^(Eigen/|unsupported/Eigen/|dnnl|oneapi/dnnl/|hwy/|cuda|cublas|cudnn|curand|cusparse|nvrtc|nvtx3/|nvToolsExt|nccl)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
USING_NAMESPACE = re.compile(r"^\s*using\s+namespace\b")
CODE_SUFFIXES = (".h", ".cc", ".cu", ".py", ".sh", ".cmake", ".txt")
MAX_LINES = 600
MAX_ROOMS = 15  # per folder; a source and its headers count as one
# A gradient is written in other ops, so their families use one another.
FOLDERS_IN_CIRCLES = ("ops/",)
# Each of their sources is a program of its own.
PROGRAM_A_SOURCE = ("bench/", "examples/")
COMPILED_ALONE = re.compile(r'^#include ["<]hwy/', re.MULTILINE)  # for each instruction set
NO_NAME = re.compile(r"using namespace|template|namespace|TEST|INSTANTIATE|static_assert|public:|private:|requires|using \w*::|#|[A-Z_]+\(")
ALIAS = re.compile(r"using (\w+) =")
TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (?:alignas\([^)]*\) )?(\w+)(?![\w;])")
FUNCTION = re.compile(r"[\w:<>,&*\[\] ]*[ &*](\w+)\(")
VALUE = re.compile(r"[^=({;]*\b(\w+)(?:\[.*\])?\s*[={;]")
OVERLOADED = ("PrintTo",)  # for one type each


def check_include(path, folder, quoted, included):
    """The violation of including `included` from `path` (relative, with `/`), or None."""
    private = path.startswith(PRIVATE_FOLDERS) or path.endswith(PRIVATE_NAME)
    public_header = path.endswith(".h") and folder in (*ALLOWED, EVERYTHING) and not private
    if public_header and FOREIGN_HEADER.match(included):
        return f"public header includes <{included}>; keep it to a source file or {PRIVATE_FOLDERS[0]}"
    if included.startswith("isochron/"):
        target = included.split("/")[1]
        if folder in ALLOWED and target != folder and target not in ALLOWED[folder]:
            allowed = ", ".join(sorted(ALLOWED[folder])) or "nothing"
            return f"{folder} includes {included}; it may include {allowed}"
        if target not in ALLOWED and folder in PROGRAM_FOLDERS and target not in (*PROGRAM_FOLDERS, EVERYTHING):
            return f"includes {included}, which is not a folder of the library"
        if public_header and included.removeprefix("isochron/").startswith(PRIVATE_FOLDERS):
            return f"public header includes {included}, which is not installed"
        if folder == "examples" and target != EVERYTHING and included not in BESIDE_EVERYTHING:
            return f"includes {included}; examples include isochron/{EVERYTHING} alone"
    elif quoted and folder in ALLOWED:
        return f'includes "{included}"; spell it isochron/<folder>/x.h'
    elif quoted and folder in PROGRAM_FOLDERS and included.startswith("tests/"):
        return f'includes "{included}"; only tests include tests'
    return None


def check_file(root, path):
    """Violations of one file as "path:line: text"."""
    relative = path.relative_to(root).as_posix()
    folder = relative.split("/")[0]
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    if len(lines) > MAX_LINES:
        found.append(f"{relative}:{len(lines)}: {len(lines)} lines; split it, {MAX_LINES} is the most")
    if path.suffix not in (".h", ".cc", ".cu"):
        return found
    for number, line in enumerate(lines, 1):
        if path.suffix == ".h" and USING_NAMESPACE.match(line):
            found.append(f"{relative}:{number}: `using namespace` in a header")
        if match := INCLUDE.match(line):
            violation = check_include(relative, folder, match[1] == '"', match[2])
            if violation:
                found.append(f"{relative}:{number}: {violation}")
    return found


def check_rooms(root, files):
    """Folders with too many sources, as "folder: text"."""
    rooms = {}
    for path in files:
        if path.suffix in (".h", ".cc", ".cu"):
            folder = path.parent.relative_to(root).as_posix()
            rooms.setdefault(folder, set()).add(path.stem.removesuffix("-inl"))
    return [f"{folder}: {len(names)} sources; {MAX_ROOMS} are the most that a folder may have"
            for folder, names in sorted(rooms.items()) if len(names) > MAX_ROOMS]


def used_folders(root, files):
    """Folder -> the folders below the same top folder that it includes."""
    used = {}
    for path in files:
        folder = path.parent.relative_to(root).as_posix()
        if path.suffix not in (".h", ".cc") or folder.split("/")[0] not in (*ALLOWED, *PROGRAM_FOLDERS):
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            match = INCLUDE.match(line)
            if match and match[2].startswith(f"isochron/{folder.split('/')[0]}/"):
                target = match[2].removeprefix("isochron/").rpartition("/")[0]
                if target != folder:
                    used.setdefault(folder, set()).add(target)
    return used


def check_circles(used):
    """Folders below one top folder that use each other, as "folder: text"."""
    def reached(folder):
        found, left = set(), [folder]
        while left:
            for target in used.get(left.pop(), ()):
                if target not in found:
                    found.add(target)
                    left.append(target)
        return found
    return [f"{folder}: uses {target}, which uses it again" for folder in sorted(used)
            for target in sorted(used[folder])
            if folder < target and not folder.startswith(FOLDERS_IN_CIRCLES) and folder in reached(target)]


def declared(line):
    """(kind, name) of what a line at the left margin declares, or None."""
    if not re.match(r"[A-Za-z]", line) or NO_NAME.match(line):
        return None
    for kind, pattern in (("alias", ALIAS), ("type", TYPE), ("function", FUNCTION), ("value", VALUE)):
        if match := pattern.match(line):
            return kind, match[1]
    return None


def unlinked_names(text):
    """{name: kind} of what a source declares in anonymous namespaces."""
    names, inside = {}, False
    for line in text.splitlines():
        if line == "namespace {":
            inside = True
        elif line == "}  // namespace":
            inside = False
        elif inside and (found := declared(line)):
            names[found[1]] = found[0]
    return names


def check_names(root, files):
    """Names in anonymous namespaces that other sources of a folder have or use, as "path: text". The sources of a folder are
    compiled as one (isochron_unity_sources), where such a name could stand for another without a word."""
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files
             if path.suffix in (".h", ".cc")}
    in_headers, included, folders = {}, {}, {}
    for path, text in texts.items():
        included[path] = [name.removeprefix("isochron/") if name.startswith("isochron/") else f"tests/{name}"
                          for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)]
        if path.endswith(".h"):
            for line in text.splitlines():
                if found := declared(line):
                    in_headers.setdefault(found[1], []).append(path)
        elif not path.startswith(PROGRAM_A_SOURCE) and not COMPILED_ALONE.search(text):
            folders.setdefault(path.rpartition("/")[0], []).append(path)
    violations = []
    for folder, sources in sorted(folders.items()):
        reached, left = set(), [header for path in sources for header in included[path]]
        while left:
            header = left.pop()
            if header not in reached:
                reached.add(header)
                left += included.get(header, ())
        owners = {}
        for path in sources:
            for name, kind in unlinked_names(texts[path]).items():
                owners.setdefault(name, {})[path] = kind
        for name, kinds in sorted(owners.items()):
            first = min(kinds)
            if len(kinds) > 1 and set(kinds.values()) != {"alias"} and name not in OVERLOADED:
                others = ", ".join(sorted(kinds)[1:])
                violations.append(f"{first}: {name} is a name of {others}, too; one name for one thing in a folder")
            elif headers := sorted(reached.intersection(in_headers.get(name, ()))):
                users = [path for path in sources
                         if path not in kinds and re.search(rf"(?<![\w.>:]){name}\b(?!:)", texts[path])]
                if users:
                    violations.append(f"{first}: {name} is {headers[0]}'s, too, which {users[0]} uses; rename it here")
    return violations


def check_tree(root):
    files = []
    for folder in (*ALLOWED, *PROGRAM_FOLDERS, *OTHER_FOLDERS):
        files += sorted(p for p in (root / folder).rglob("*") if p.suffix in CODE_SUFFIXES and p.is_file())
    files += [root / EVERYTHING] if (root / EVERYTHING).is_file() else []
    found = [violation for path in files for violation in check_file(root, path)]
    return len(files), (found + check_rooms(root, files) + check_circles(used_folders(root, files)) +
                        check_names(root, files))


def self_test():
    clean = {
        "core/a.h": "#include <vector>\n",
        "memory/a.h": '#include "isochron/core/a.h"\n#include "isochron/memory/b.h"\n',
        "ops/a.cc": "#include <Eigen/Core>\nusing namespace std;\n",
        "backends/cpu/a.h": "#include <dnnl.hpp>\n",
        "train/a.h": '#include "isochron/observe/a.h"\n',
        "apps/a.cc": '#include "isochron/train/a.h"\n#include "apps/b.h"\n#include "isochron/isochron.h"\n',
        EVERYTHING: '#include "isochron/train/a.h"\n',
        "tests/graph/a_test.cc": '#include "graph/helper.h"\n#include "isochron/graph/a.h"\n',
        "nn/long.cc": "\n" * MAX_LINES,
        "optim/a/x.h": '#include "isochron/optim/b/x.h"\n',
        "optim/b/x.h": "\n",
        "ops/c/x.h": '#include "isochron/ops/d/x.h"\n',
        "ops/d/x.h": '#include "isochron/ops/c/x.h"\n',
        "comm/a.h": "void send(int to);\n",
        "comm/a.cc": "namespace {\nconstexpr int kMax = 1;\nvoid own() {}\n}  // namespace\nvoid send(int to) { own(); }\n",
        "comm/b.cc": "#include \"isochron/comm/a.h\"\nnamespace {\nusing Own = int;\n}  // namespace\nvoid both() { send(1); }\n",
        **{f"data/full/x{i}{suffix}": "\n" for i in range(MAX_ROOMS) for suffix in (".h", ".cc", "-inl.h")},
    }
    planted = {
        "core includes upward": ("core/x.h", '#include "isochron/memory/a.h"\n'),
        "graph includes autograd": ("graph/x.cc", '#  include "isochron/autograd/a.h"\n'),
        "ops include a backend": ("ops/x.cc", '#include "isochron/backends/cpu/a.h"\n'),
        "data includes graph": ("data/x.cc", '#include "isochron/graph/a.h"\n'),
        "observe includes memory": ("observe/x.h", "#include <isochron/memory/a.h>\n"),
        "library includes program": ("train/x.cc", '#include "isochron/apps/a.h"\n'),
        "library includes everything": ("nn/x.cc", '#include "isochron/isochron.h"\n'),
        "example with an include of its own": ("examples/x.cc", '#include "isochron/core/a.h"\n'),
        "unknown folder": ("apps/x.cc", '#include "isochron/tests/a.h"\n'),
        "program includes test": ("bench/x.cc", '#include "tests/a.h"\n'),
        "include by another spelling": ("memory/x.cc", '#include "b.h"\n'),
        "Eigen in a public header": ("ops/x.h", "#include <Eigen/Core>\n"),
        "oneDNN in a public header": ("nn/x.h", "#include <oneapi/dnnl/dnnl.hpp>\n"),
        "Highway in a public header": ("graph/x.h", '#include "hwy/highway.h"\n'),
        "CUDA in a public header": ("memory/x.h", "#include <cuda_runtime.h>\n"),
        "private header in a public one": ("ops/x.h", '#include "isochron/backends/cpu/a.h"\n'),
        "using namespace in a header": ("apps/x.h", "  using namespace isochron;\n"),
        "name of two sources": ("comm/c.cc", "namespace {\nstatic bool own(int x) { return x > 0; }\n}  // namespace\n"),
        "name of a header's": ("comm/c.cc", "namespace {\nvoid send(long to) {}\n}  // namespace\n"),
        "folder too full": ("data/full/one_more.cc", "\n"),
        "folders in a circle": ("optim/b/y.h", '#include "isochron/optim/a/x.h"\n'),
        "file too long": ("tests/x_test.cc", "\n" * (MAX_LINES + 1)),
    }
    missed = []
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)

        def write(path, text):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")

        for path, text in clean.items():
            write(path, text)
        if check_tree(root)[1]:
            missed.append(f"a clean tree was rejected: {check_tree(root)[1]}")
        for what, (path, text) in planted.items():
            write(path, text)
            found = check_tree(root)[1]
            places = (f"{path}:", f"{path.rpartition('/')[0]}:", "optim/a:", "comm/a.cc: own")
            if len(found) != 1 or not found[0].startswith(places):
                missed.append(f"{what}: expected one violation in {path}, found {found}")
            (root / path).unlink()
    for text in missed:
        print(f"self-test: {text}", file=sys.stderr)
    print(f"layers: self-test, {len(planted) - len(missed)} of {len(planted)} planted violations found")
    return 1 if missed else 0


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    count, violations = check_tree(root)
    for violation in violations:
        print(violation, file=sys.stderr)
    if count == 0:
        print(f"layers: no source below {root}", file=sys.stderr)
        return 1
    print(f"layers: {count} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
