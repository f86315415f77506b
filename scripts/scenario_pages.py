#!/usr/bin/env python3
"""Rewrites the measured parts of docs/scenarios/*.md and their figures, so that no number there is typed by hand.

    isochron compare --out FOLDER && scripts/scenario_pages.py FOLDER [--pages docs/scenarios]

`<!-- loops -->` is filled with the scenario's loops, `<!-- tables -->` with its tables, both from FOLDER/compare.json and up
to `<!-- end -->`; FOLDER/NAME.svg is copied beside NAME.md. Scenarios that FOLDER lacks stay as they are.
"""

import argparse
import json
import pathlib
import re
import shutil
import sys


def duration(ns):
    for unit, size in (("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        if ns < 999.5 * size or unit == "s":  # beyond, three digits would round to 1e+03
            return f"{ns / size:.3g} {unit}"


def ratio(times):
    """Formats a ratio like `ratio_text` (observe/diagnose/report.h)."""
    return f"{times:.0f}x" if times >= 100 else f"{times:.1f}x" if times >= 10 else f"{times:.2f}x" if times >= 0.1 else f"{times:.2g}x"


def amount(count):
    for unit, size in (("B", 1), ("KB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if abs(count) < 1000 * size or unit == "GB":
            return f"{count / size:+.3g} {unit}"


def level(loop, name, what):
    """What a sampled level has gained, as the report counts it: from the first tenth of the run to the last; with its
    verdict. "" where it wasn't sampled."""
    for series in loop["series"]:
        if series["name"] == name:
            verdict = series.get("verdict") or {}
            begin, end = verdict.get("first_tenth"), verdict.get("last_tenth")
            if begin is None or end is None:
                begin, end = series["first"], series["last"]
            return f"{amount(end - begin)}{what} {verdict.get('kind', '')}".strip()
    return ""


def markdown_table(columns, rows):
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in [columns, *rows]]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])


def epochs_text(scenario):
    """One row per loop and one column per epoch, each with as many of the document's iterations."""
    loops = [loop for loop in scenario["loops"] if loop["epochs_ns"]]
    if not loops:
        return ""
    least = min(loop["iterations_per_epoch"] * loop["work_per_iteration"] for loop in scenario["loops"])
    rows = []
    for loop in loops:
        part = least / (loop["iterations_per_epoch"] * loop["work_per_iteration"])
        rows.append([f"**{loop['name']}**" if loop["cured"] else loop["name"],
                     *(duration(ns * part) for ns in loop["epochs_ns"])])
    most = max(len(row) for row in rows)
    columns = ["loop", *(str(epoch) for epoch in range(1, most))]
    return (f"Time of each epoch of {least:,} iterations:\n\n"
            + markdown_table(columns, [row + ["-"] * (most - len(row)) for row in rows]))


def loops_text(scenario):
    rows = []
    for loop in scenario["loops"]:
        verdict = loop["time"]["kind"]
        if loop["time"].get("statistic"):
            verdict += f" {100 * loop['time']['change']:+.1f} %"
        name = f"**{loop['name']}**" if loop["cured"] else loop["name"]
        levels = [level(loop, "rss_bytes", ""), level(loop, "disk_bytes", " on disk")]
        causes = ", ".join(cause["name"] for cause in loop["causes"]) or "-"
        times = ratio(loop["times_slower"]) if loop.get("times_slower") else "-"
        work = loop["work_per_iteration"]  # of the document's iterations in a recorded one
        rows.append([name, duration(loop["duration_ns"]["mean"] / work), duration(loop["duration_ns"]["p50"] / work), times,
                     verdict, f"{loop['iterations'] * work:,}", "; ".join(text for text in levels if text), causes])
    columns = ["loop (cured forms bold)", "mean", "median", "vs cured (means)", "time", "iterations", "memory and disk",
               "causes named"]
    notes = [f"- {loop['name']}: {note}." for loop in scenario["loops"] for note in loop["notes"]]
    machine = scenario["loops"][0]["environment"]
    where = (f"{machine['cpu']}, {machine['usable_cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, "
             f"{machine['kernel']}.")
    epochs = epochs_text(scenario)
    unsettled = [loop["name"] for loop in scenario["loops"] if not loop["settled"]]
    if unsettled:
        where += (" Not settled in the time of this run, as other programs had their part of the machine: "
                  f"{', '.join(unsettled)}.")
    parts = [markdown_table(columns, rows), "\n".join(notes), epochs, f"Measured on {where}"]
    return "\n\n".join(part for part in parts if part)


def tables_text(scenario):
    parts = []
    for table in scenario["tables"]:
        parts += [f"**{table['title']}**", markdown_table(table["columns"], table["rows"]), table["says"]]
    return "\n\n".join(parts)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Rewrites the measured parts of the scenarios' pages.")
    parser.add_argument("folder", type=pathlib.Path, help="what `isochron compare --out` has written")
    parser.add_argument("--pages", type=pathlib.Path, default=root / "docs/scenarios")
    arguments = parser.parse_args()
    results = arguments.folder / "compare.json"
    if not results.is_file():
        sys.exit(f"{results}: not there; make it with `isochron compare --out {arguments.folder}`")
    marker = re.compile(r"<!-- (loops|tables) -->\n.*?<!-- end -->", re.DOTALL)
    for scenario in json.loads(results.read_text(encoding="utf-8"))["scenarios"]:
        page = arguments.pages / f"{scenario['scenario']}.md"
        texts = {"loops": loops_text(scenario), "tables": tables_text(scenario)}
        text, count = marker.subn(lambda match: f"<!-- {match[1]} -->\n{texts[match[1]]}\n<!-- end -->",
                                  page.read_text(encoding="utf-8"))
        if count != 2:
            sys.exit(f"{page}: expected a part for loops and one for tables, found {count}")
        page.write_text(text, encoding="utf-8")
        shutil.copyfile(arguments.folder / f"{scenario['scenario']}.svg", page.with_suffix(".svg"))
        print(f"{page.name}: {len(scenario['loops'])} loops, {len(scenario['tables'])} tables")


if __name__ == "__main__":
    main()
