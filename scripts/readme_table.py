#!/usr/bin/env python3
"""Rewrites the measured parts of README.md, docs/benchmarks.md and docs/training.md between their markers, so that no number
there is typed by hand.

    readme_table.py [--documents README.md ...] [--results bench/results] [--outputs FOLDER]

`<!-- claim -->`, `<!-- fastest -->` (unless in 16 bits, beside the fastest peer) and `<!-- results -->` come from RESULTS (a file, or all of a folder's *.json), one JSON object a line, as `isochron bench --json` and the
scripts in bench/peers print them:

    {"case": "tiny", "precision": "f32", "threads": 1, "p50_us": 3.1, ...}      a measurement; "framework" names a peer,
                                                                                absent for Isochron itself
    {"machine": "...", "command": "...", "versions": {"TensorFlow": "2.20"}}    where and how the file was made; each key
                                                                                may be absent, also beside a measurement

The best p50 of a framework counts; the ratios compare runs of equal thread counts. `<!-- output NAME -->` is filled from OUTPUTS/NAME.txt where that file exists, without
most of the epochs; `<!-- times NAME -->` is its first table. Every part ends at `<!-- end -->`.
"""

import argparse
import json
import pathlib
import re
import sys

OURS = "Isochron"
CASES = {
    "tiny": "100-10-1, batch 32, Adam",
    "mlp": "784-512-512-10, batch 128, Adam",
    "cnn": "28x28x1, two convolutions, two dense layers, batch 64, RMSprop",
    "epoch": "tiny's model for one epoch of 1,000 rows, shuffle(1000).batch(32).prefetch()",
    "data": "that epoch's batches alone",
    "pipeline": "rows of 100 floats: map(2 x).shuffle(1000).batch(32).prefetch(), one row",
    "map": "those rows one by one through map(x), one row",
    "growing_graph": "x = fmod(2 x, 7) in an in-graph while loop, one iteration",
    "eager": "one op run eagerly",
    "resnet20": "CIFAR ResNet-20, batch 32, momentum",
    "lstm": "(64, 48, 8) -> LSTM 64 -> 1, Adam",
    "gpt": "4 blocks, width 128, context 64, batch 12, AdamW",
}
NOT_MEASURED = "not measured yet"


def read_results(folder):
    """({(case, precision): {framework: {threads: best record}}},
    {"machine"|"command"|"method": [text], "versions": {name: text}})."""
    measured, about = {}, {"machine": [], "command": [], "method": [], "versions": {}}
    for path in [folder] if folder.is_file() else sorted(folder.glob("*.json")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                sys.exit(f"{path}:{number}: {error}; one JSON object a line is expected")
            for key in ("machine", "command", "method"):
                if key in record and record[key] not in about[key]:
                    about[key].append(record[key])
            about["versions"].update(record.get("versions", {}))
            if "p50_us" not in record or "case" not in record:
                continue
            row = measured.setdefault((record["case"], record.get("precision", "f32")), {})
            of_threads = row.setdefault(record.get("framework", OURS), {})
            threads = record.get("threads", 1)
            if threads not in of_threads or record["p50_us"] < of_threads[threads]["p50_us"]:
                of_threads[threads] = record
    return measured, about


def best_of(measured):
    """{(case, precision): {framework: the best record at any thread count}}."""
    return {
        key: {name: min(records.values(), key=lambda r: r["p50_us"]) for name, records in row.items()}
        for key, row in measured.items()
    }


def ratio_at(row, threads):
    """How much faster than the fastest peer with as many threads; "" if either wasn't measured."""
    ours = row.get(OURS, {}).get(threads)
    peers = [records[threads]["p50_us"] for name, records in row.items() if name != OURS and threads in records]
    return ratio_text(min(peers) / ours["p50_us"]) if ours and peers else ""


def time_text(us):
    if us < 1:
        return f"{us * 1000:.3g} ns"
    return f"{us:.3g} us" if us < 1000 else f"{us / 1000:.3g} ms"


def excerpt(text):
    """A run's output without the epochs between the first two and the last of each series."""
    lines, kept = text.rstrip().splitlines(), []
    epoch = re.compile(r"\s*Epoch\s+(\d+)")
    for line, following in zip(lines, [*lines[1:], ""]):
        number = epoch.match(line)
        if not number or int(number[1]) <= 2 or not epoch.match(following):
            kept.append(line)
        elif not kept or kept[-1].strip() != "...":
            kept.append(re.match(r"\s*", line)[0] + "...")
    return "\n".join(kept)


def first_table(text):
    """A run's first scenario: its table of loops, and what is wrong with which."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  loop "))
    end = next((i for i in range(start, len(lines)) if lines[i] and not lines[i].startswith("  ")), len(lines))
    return "```\n" + "\n".join(line.removeprefix("  ") for line in lines[start:end]).rstrip() + "\n```"


def ratio_text(ratio):
    return f"{ratio:.1f}x" if ratio < 10 else f"{ratio:.0f}x"


def case_order(key):
    case, precision = key
    names = list(CASES)
    return (names.index(case) if case in names else len(names), case, precision != "f32", precision)


def table(measured, about):
    if not measured:
        return NOT_MEASURED
    best = best_of(measured)
    counts = sorted({t for row in measured.values() for records in row.values() for t in records}, reverse=True)
    keys = sorted(best, key=case_order)
    peers = sorted({framework for row in best.values() for framework in row} - {OURS})
    ratios = [f"{threads} thread{'s' if threads > 1 else ''}" for threads in counts]
    lines = ["| what is timed | " + " | ".join([OURS, *peers, *ratios]) + " |",
             "|---|" + "---|" * (1 + len(peers) + len(counts))]
    for key in keys:
        case, precision = key
        row = best[key]
        cells = [time_text(row[name]["p50_us"]) if name in row else "" for name in (OURS, *peers)]
        cells += [ratio_at(measured[key], threads) for threads in counts]
        what = f": {CASES[case]}" if case in CASES else ""
        lines.append(f"| `{case}` {precision}{what} | " + " | ".join(cells) + " |")
    notes = ["Median times, each framework at its best setting and thread count; the last columns: how many times faster "
             "than the fastest peer on as many threads"]
    notes += [", ".join(about["machine"])] if about["machine"] else []
    if about["versions"]:
        notes.append(", ".join(f"{name} {version}" for name, version in sorted(about["versions"].items())))
    text = "\n".join(lines) + "\n\n" + "; ".join(notes) + "."
    if about["command"]:
        text += " To reproduce: " + ", then ".join(f"`{command}`" for command in about["command"]) + "."
    if not about["method"]:
        text += (" These results predate two changes: Isochron now also cycles through eight batches, and the peers' memory is now "
                 "read at exit. In the table below, the peers' memory is their peak, Isochron's is final.")
    return text + memory_table(best)


def fastest(measured):
    """The cases, except those in 16 bits, compared with the fastest peer of each, all at their best thread count."""
    best = {key: row for key, row in best_of(measured).items() if "mixed" not in key[1] and OURS in row and len(row) > 1}
    if not best:
        return NOT_MEASURED
    lines = ["| what is timed | Isochron | the fastest peer | times faster |", "|---|---|---|---|"]
    for key in sorted(best, key=case_order):
        row = best[key]
        peer = min((name for name in row if name != OURS), key=lambda name: row[name]["p50_us"])
        ours, theirs = row[OURS]["p50_us"], row[peer]["p50_us"]
        what = f": {CASES[key[0]]}" if key[0] in CASES else ""
        lines.append(f"| `{key[0]}`{what} | {time_text(ours)} | {time_text(theirs)}, {peer} | {ratio_text(theirs / ours)} |")
    return "\n".join(lines)


def memory_table(best):
    """Resident memory of each case, where it was measured: model, data and what the framework keeps for them."""
    keys = [key for key in sorted(best, key=case_order) if "memory_mb" in best[key].get(OURS, {})]
    peers = sorted({name for key in keys for name, record in best[key].items() if "memory_mb" in record} - {OURS})
    if not keys or not peers:
        return ""
    lines = ["", "", "Memory that a case adds to the process, in MB (of Isochron's, the arena of the plan in brackets):", ""]
    lines.append("| case | " + " | ".join([OURS, *peers]) + " |")
    lines.append("|---|" + "---|" * (len(peers) + 1))
    for key in keys:
        row = best[key]
        if not any("memory_mb" in row.get(name, {}) for name in peers):
            continue
        ours = f"{row[OURS]['memory_mb']:.1f} ({row[OURS].get('arena_bytes', 0) * 1e-6:.1f})"
        cells = [f"{row[name]['memory_mb']:.1f}" if "memory_mb" in row.get(name, {}) else "" for name in peers]
        lines.append(f"| `{key[0]}` {key[1]} | " + " | ".join([ours, *cells]) + " |")
    return "\n".join(lines)


def claim(best):
    row = best.get(("tiny", "f32"), {})
    peers = sorted((row[name]["p50_us"], name) for name in row if name != OURS)
    if OURS not in row or not peers:
        return NOT_MEASURED
    ours = row[OURS]
    ratios = ", ".join(f"{ratio_text(us / ours['p50_us'])} faster than {name}" for us, name in peers)
    text = f"**One whole train step of a small network ({CASES['tiny']}) takes {time_text(ours['p50_us'])}**: {ratios}"
    if "heap_allocations" in ours:
        text += f"; heap allocations per step: {ours['heap_allocations']:g}"
    return text + "."


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Rewrites the measured parts of the documents.")
    parser.add_argument("--documents", type=pathlib.Path, nargs="+",
                        default=[root / name for name in ("README.md", "docs/benchmarks.md", "docs/training.md")])
    parser.add_argument("--results", type=pathlib.Path, default=root / "bench/results")
    parser.add_argument("--outputs", type=pathlib.Path, help="left out, the outputs stay as they are")
    arguments = parser.parse_args()
    measured, about = read_results(arguments.results)
    best = best_of(measured)

    def output_of(name):
        path = arguments.outputs / (name + ".txt") if arguments.outputs else None
        return path.read_text(encoding="utf-8") if path and path.is_file() else None

    def part(match):
        name, old = match[1], match[2]
        if name == "claim":
            new = claim(best)
        elif name == "fastest":
            new = fastest(measured)
        elif name == "results":
            new = table(measured, about)
        elif name.startswith("times "):
            output = output_of(name.removeprefix("times "))
            new = first_table(output) if output else old.strip()
        else:
            output = output_of(name.removeprefix("output "))
            new = "```\n" + excerpt(output) + "\n```" if output else old.strip()
        return f"<!-- {name} -->\n{new}\n<!-- end -->"

    marker = re.compile(r"<!-- (claim|fastest|results|(?:output|times) [a-z0-9-]+) -->\n(.*?)<!-- end -->", re.DOTALL)
    for document in arguments.documents:
        replaced, count = marker.subn(part, document.read_text(encoding="utf-8"))
        if count == 0:
            sys.exit(f"{document}: no markers found")
        document.write_text(replaced, encoding="utf-8")
        print(f"{document.name}: {count} parts, {len(best)} measured cases")


if __name__ == "__main__":
    main()
