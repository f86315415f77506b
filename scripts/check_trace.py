#!/usr/bin/env python3
"""Checks a trace file against the Trace Event Format (Google's published format description), strictly, and against
what docs/export.md says of ours; prints what it holds.

    check_trace.py FILE...      exit 1 on any violation
    check_trace.py --self-test  plant one violation of every rule and demand that each is found
"""

import collections
import copy
import json
import sys

NUMBER = (int, float)
CATEGORIES = {"step", "phase", "call", "kernel", "team", "capture", "data", "file", "memory", "event"}
METADATA = {"process_name": ("name", str), "thread_name": ("name", str), "thread_sort_index": ("sort_index", int)}
# For each kind of event: the keys that it must have and those that it may have, with their types.
REQUIRED = {"ph": str, "name": str, "pid": int, "tid": int}
KINDS = {
    "X": ({"cat": str, "ts": NUMBER, "dur": NUMBER}, {"args": dict}),
    "C": ({"cat": str, "ts": NUMBER, "args": dict}, {}),
    "i": ({"cat": str, "ts": NUMBER, "s": str}, {"args": dict}),
    "M": ({"args": dict}, {}),
}
ARGUMENTS = {  # of spans, by category
    "kernel": {"op": str, "shapes": str, "flops": int, "bytes": int},
    "step": {"step": int},
    "team": {"elements": int},
}


def is_a(value, kind):
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)


def check_event(event):
    """The violations of one event by itself."""
    if not isinstance(event, dict):
        return ["is no object"]
    found = [f"lacks {key}, or it is no {kind.__name__}" for key, kind in REQUIRED.items() if not is_a(event.get(key), kind)]
    if found:
        return found
    if event["ph"] not in KINDS:
        return [f"has the phase {event['ph']!r}, which is none that we write"]
    required, optional = KINDS[event["ph"]]
    found += [f"lacks {key}, or it is of another type" for key, kind in required.items() if not is_a(event.get(key), kind)]
    found += [f"has {key} of another type" for key, kind in optional.items() if key in event and not is_a(event[key], kind)]
    found += [f"has the unknown key {key}" for key in event if key not in {**REQUIRED, **required, **optional}]
    if found:
        return found
    if event["ph"] == "M":
        key, kind = METADATA.get(event["name"], (None, None))
        if key is None or list(event["args"]) != [key] or not is_a(event["args"][key], kind):
            found.append("is metadata with other arguments than its name wants")
        return found
    if event["cat"] not in CATEGORIES:
        found.append(f"has the unknown category {event['cat']}")
    if event["ts"] < 0 or event.get("dur", 0) < 0:
        found.append("has a time below 0")
    if event["ph"] == "i" and event["s"] not in ("g", "p", "t"):
        found.append("has a scope other than g, p, t")
    if event["ph"] == "C" and (not event["args"] or not all(is_a(value, NUMBER) for value in event["args"].values())):
        found.append("is a counter with other arguments than numbers")
    wanted = ARGUMENTS.get(event["cat"], {}) if event["ph"] == "X" else {}
    given = event.get("args", {})
    if event["ph"] == "X" and (set(given) != set(wanted) or not all(is_a(given[key], wanted[key]) for key in wanted)):
        found.append(f"has other arguments than {sorted(wanted)}")
    return found


def check_nesting(spans):
    """Spans of one thread lie beside or within each other; times in whole nanoseconds, so that this is exact."""
    found = []
    order = sorted(((round(s["ts"] * 1000), -round(s["dur"] * 1000), s["name"]) for s in spans))
    open_until = []
    for start, negative, name in order:
        end = start - negative
        while open_until and open_until[-1][0] <= start:
            open_until.pop()
        if open_until and end > open_until[-1][0]:
            found.append(f"span {name!r} from {start} to {end} ns overlaps the end of {open_until[-1][1]!r}")
        open_until.append((end, name))
    return found


def check(document):
    """Violations of a whole file as lines."""
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        return ["is no object with traceEvents"]
    found = []
    if document.get("displayTimeUnit") not in ("ms", "ns"):
        found.append("displayTimeUnit is neither ms nor ns")
    other = document.get("otherData")
    if not isinstance(other, dict) or other.get("program") != "isochron" or not all(isinstance(v, str) for v in other.values()):
        found.append("otherData is no object of strings that names the program")
    found += [f"the unknown key {key}" for key in document if key not in ("displayTimeUnit", "otherData", "traceEvents")]
    spans, named, used, processes = collections.defaultdict(list), collections.Counter(), set(), 0
    for number, event in enumerate(document["traceEvents"]):
        violations = check_event(event)
        found += [f"event {number} {violation}" for violation in violations]
        if violations:
            continue
        thread = (event["pid"], event["tid"])
        if event["ph"] == "X":
            spans[thread].append(event)
        if event["ph"] in "XC":
            used.add(thread)
        if event["name"] == "thread_name" and event["ph"] == "M":
            named[thread] += 1
        processes += event["name"] == "process_name" and event["ph"] == "M"
    if processes != 1:
        found.append(f"{processes} process names")
    found += [f"thread {thread} has {named[thread]} names" for thread in used if named[thread] != 1]
    for thread, of_thread in spans.items():
        found += [f"thread {thread}: {violation}" for violation in check_nesting(of_thread)]
    return found


def summary(document):
    events = document["traceEvents"]
    by_category = collections.Counter(e["cat"] for e in events if e["ph"] == "X")
    counters = sorted({e["name"] for e in events if e["ph"] == "C"})
    threads = [e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"]
    return (f"{len(events)} events; spans {dict(sorted(by_category.items()))}; counters {counters}; threads {threads}; "
            f"{document['otherData'].get('lost_events')} lost")


def self_test():
    base = {"name": "n", "pid": 1, "tid": 2}
    good = {
        "displayTimeUnit": "ns",
        "otherData": {"program": "isochron"},
        "traceEvents": [
            {"ph": "M", **base, "name": "process_name", "args": {"name": "isochron"}},
            {"ph": "M", **base, "name": "thread_name", "args": {"name": "main"}},
            {"ph": "X", **base, "cat": "step", "ts": 0, "dur": 10.5, "args": {"step": 1}},
            {"ph": "X", **base, "cat": "kernel", "ts": 1, "dur": 2,
             "args": {"op": "matmul", "shapes": "(1)", "flops": 2, "bytes": 4}},
            {"ph": "X", **base, "cat": "data", "ts": 3, "dur": 7.5},
            {"ph": "C", **base, "cat": "memory", "ts": 3, "args": {"value": 4}},
            {"ph": "i", **base, "cat": "event", "ts": 3, "s": "p", "args": {"text": "t"}},
        ],
    }

    def with_event(number, **changes):
        document = copy.deepcopy(good)
        event = document["traceEvents"][number]
        for key, value in changes.items():
            if value is None:
                del event[key]
            else:
                event[key] = value
        return document

    planted = {
        "no object": [],
        "no events": {"displayTimeUnit": "ns"},
        "no unit": {**good, "displayTimeUnit": "us"},
        "no program": {**good, "otherData": {}},
        "unknown key of the file": {**good, "more": 1},
        "unnamed process": with_event(0, name="thread_sort_index", args={"sort_index": 1}),
        "unnamed thread": with_event(1, tid=3),
        "no phase": with_event(2, ph=None),
        "unknown phase": with_event(2, ph="Q"),
        "time as text": with_event(2, ts="0"),
        "time as a truth": with_event(2, ts=True),
        "negative duration": with_event(2, dur=-1),
        "no duration": with_event(2, dur=None),
        "unknown category": with_event(2, cat="other"),
        "unknown key of an event": with_event(2, extra=1),
        "kernel without its op": with_event(3, args={}),
        "overlap": with_event(4, dur=20),
        "counter of text": with_event(5, args={"value": "4"}),
        "counter without value": with_event(5, args={}),
        "scope": with_event(6, s="x"),
        "thread number as text": with_event(6, tid="2"),
    }
    missed = [f"a good file was refused: {check(good)}"] if check(good) else []
    missed += [f"{what} was not found" for what, document in planted.items() if not check(document)]
    for text in missed:
        print(f"self-test: {text}", file=sys.stderr)
    print(f"traces: self-test, {len(planted)} planted violations, {len(missed)} missed")
    return 1 if missed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    failed = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        violations = check(document)
        for violation in violations[:20]:
            print(f"{path}: {violation}", file=sys.stderr)
        failed |= bool(violations)
        print(f"{path}: {summary(document) if not violations else f'{len(violations)} violations'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
