#!/usr/bin/env python3
"""Draws the layers of the library, from the includes, into docs/architecture.md.

    layer_diagram.py          rewrite the diagram between its markers
    layer_diagram.py --check  exit 1 where the diagram in the document is not that of the code
"""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- layers: written by scripts/layer_diagram.py -->", "<!-- layers: end -->"
FOLDERS = {  # folder -> what a newcomer looks for there
    "core": "tensors' handles, dtypes, errors, threads, files, clock, trace",
    "memory": "allocators, the arena, the planner that places buffers",
    "comm": "between processes: collectives, MPI, the thread that communicates",
    "observe": "recorder, verdict on flat time and memory, causes, exports",
    "data": "datasets, formats, the pipeline that prefetches batches",
    "graph": "capture, passes, plans, replay; what a row, a kernel, a backend is",
    "ops": "families of ops; a row each: shapes, gradient, definition, samples",
    "backends": "kernels: backends/cpu, backends/cuda",
    "autograd": "the backward walk, for tapes and graphs",
    "optim": "optimizers, schedules, clipping, accumulation",
    "nn": "layers, losses, metrics, weights in files, reference models",
    "train": "the fit loop, callbacks, checkpoints",
    "apps": "the command: train, compare, bench, analyze, report",
}
IN_CIRCLES = ("ops",)  # gradients are written in other ops, so their families use one another
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]isochron/([a-z]+)/(?:([a-z]+)/)?', re.MULTILINE)
WIDTH = 120


def uses():
    found = {}
    for folder in FOLDERS:
        included = set()
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".h", ".cc"):
                included |= {match[0] for match in INCLUDE.findall(path.read_text(encoding="utf-8"))}
        found[folder] = (included & FOLDERS.keys()) - {folder}
    return found


def parts(folder):
    """Lines that name the folders below `folder`, beginning with those that use none of the others."""
    used = {path.name: set() for path in (ROOT / folder).iterdir() if any(path.rglob("*.h"))}
    for name in used:
        for path in (ROOT / folder / name).rglob("*"):
            if path.suffix in (".h", ".cc") and folder not in IN_CIRCLES:
                for top, part in INCLUDE.findall(path.read_text(encoding="utf-8")):
                    if top == folder and part in used and part != name:
                        used[name].add(part)
    if not used:
        return []
    level = layers(used)
    text = " < ".join(", ".join(sorted(n for n in used if level[n] == i)) for i in range(max(level.values()) + 1))
    return textwrap.wrap(text, WIDTH, initial_indent=" " * 15, subsequent_indent=" " * 15)


def layers(used):
    """Each folder one above the highest that it uses. Raises ValueError for folders that use each other."""
    level = {}
    while len(level) < len(used):
        ready = [f for f in used if f not in level and used[f] <= level.keys()]
        if not ready:
            raise ValueError(f"these folders use each other: {', '.join(sorted(used.keys() - level.keys()))}")
        for folder in ready:
            level[folder] = 1 + max((level[f] for f in used[folder]), default=-1)
    return level


def reduced(folder, used):
    """The folders that it uses and that none of its other used folders uses."""
    def below(f):
        return used[f].union(*(below(g) for g in used[f]))
    return sorted(f for f in used[folder] if not any(f in below(g) for g in used[folder]))


def picture():
    used = uses()
    level = layers(used)
    lines = ["```"]
    for layer in range(max(level.values()), -1, -1):
        for i, folder in enumerate(sorted(f for f in level if level[f] == layer)):
            number = f"{layer}" if i == 0 else " "
            above = ", ".join(reduced(folder, used))
            lines.append(f" {number}  {folder:<9}  {FOLDERS[folder]:<68}"
                         + (f"  -> {above}" if above else ""))
            lines += parts(folder)
    lines.append("```")
    return "\n".join(line.rstrip() for line in lines)


def main():
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    drawn = f"{before}{BEGIN}\n{picture()}\n{END}{after}"
    if sys.argv[1:] == ["--check"]:
        if drawn != text:
            sys.exit("layer diagram: docs/architecture.md is not what the code is; run scripts/layer_diagram.py")
        print("layer diagram: docs/architecture.md is what the code is")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    elif drawn != text:
        DOCUMENT.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
