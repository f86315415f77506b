#!/usr/bin/env python3
"""Runs the command and reads what it exports with the programs that it is for.

usage: export_test.py trace|chromium|tensorboard|graphs|nvtx COMMAND [LISTENER]

  trace        --trace, by check_trace.py
  chromium     --trace, by the trace engine of Chromium's own tools, that of their performance panel
  tensorboard  --tensorboard and --graphs, by TensorBoard's own reader; needs the package `tensorboard` in the Python
               that ISOCHRON_TOOLS_PYTHON names, in build/tools (make export-tools) or in the one that runs this
  graphs       --graphs, by Graphviz's dot
  nvtx         ranges, by the tool LISTENER that NVTX loads

Exits with 77 and says so where such a program is missing.
"""

import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77


def skip(text):
    print(f"skipped: {text}")
    sys.exit(SKIPPED)


def demand(holds, text):
    if not holds:
        sys.exit(f"export_test: {text}")


def run(command, **variables):
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "ISOCHRON_CACHE": "off", **variables}
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
    demand(done.returncode == 0, f"status {done.returncode} of {command}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def test_trace(command, folder):
    path = folder / "trace.json"
    last = 40  # by then the batches made ahead are used up
    run([command, "train", "digits", "--epochs", 1, "--trace", path, "--trace-steps", f"2:{last}",
         "--checkpoint", folder / "saved", "--checkpoint-every", 10, "--threads", 2])
    print(run([sys.executable, HERE / "check_trace.py", path]))
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    steps = [e["args"]["step"] for e in events if e["ph"] == "X" and e["cat"] == "step"]
    demand(steps == list(range(2, last + 1)), f"asked for steps 2 to {last}, got {steps}")
    spans = [e for e in events if e["ph"] == "X"]
    calls = [e for e in spans if e["cat"] == "call" and e["name"] == "train step"]
    demand(len(calls) == len(steps), f"{len(calls)} calls of the train step")
    kernels = [e for e in spans if e["cat"] == "kernel"]
    demand(kernels and all(any(c["ts"] <= k["ts"] and k["ts"] + k["dur"] <= c["ts"] + c["dur"] + 1e-6 for c in calls)
                           for k in kernels), "a kernel lies outside of every call")
    names = {e["name"] for e in spans}
    for wanted in ("compute", "data_wait", "checkpoint", "make element", "draw", "write checkpoint"):
        demand(wanted in names, f"no span {wanted!r} among {sorted(names)}")
    counters = {e["name"] for e in events if e["ph"] == "C"}
    demand(counters == {"elements ready", "bytes in use", "bytes reserved", "resident bytes"}, f"counters {counters}")
    demand(any(e["ph"] == "i" and e["name"] == "checkpoint" for e in events), "no checkpoint among the events")
    threads = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    demand({"main", "loader worker 0", "checkpoint writer"} <= threads, f"threads {threads}")


class Chromium:
    """A headless Chromium that is controlled through pipes (the DevTools protocol)."""

    def __init__(self, program, folder):
        to_it, self.out = os.pipe()
        self.into, from_it = os.pipe()
        self.buffer, self.number = b"", 0

        def put_in_place():  # Chromium reads from 3 and writes to 4
            reading, writing = os.dup(to_it), os.dup(from_it)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=put_in_place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_it)
        os.close(from_it)

    def call(self, method, parameters, session=None, seconds=60):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            while b"\0" in self.buffer:
                one, self.buffer = self.buffer.split(b"\0", 1)
                answer = json.loads(one)
                if answer.get("id") == self.number:
                    return answer.get("result", {})
            if select.select([self.into], [], [], 1)[0]:
                part = os.read(self.into, 1 << 20)
                demand(part, "Chromium ended")
                self.buffer += part
        sys.exit(f"export_test: no answer of Chromium to {method}")

    def close(self):
        self.process.terminate()
        self.process.wait()


ENGINE = """
(async () => {
  const engine = await import("devtools://devtools/bundled/models/trace/trace.js").catch(() => null);
  if (!engine) return "missing";
  const model = engine.TraceModel.Model.createWithAllHandlers();
  await model.parse(JSON.parse(TEXT).traceEvents, {metadata: {}, isFreshRecording: false});
  const parsed = model.parsedTrace();
  const threads = engine.Handlers.Threads.threadsInTrace(parsed.data ?? parsed);
  return JSON.stringify(threads.map(t => [t.name, t.entries.map(e => [e.name, e.ts, e.dur])]));
})()
"""


def test_chromium(command, folder):
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        skip("no Chromium here")
    empty = subprocess.run([program, "--headless", "--no-sandbox", "--disable-gpu",
                            f"--user-data-dir={folder / 'first-profile'}", "--dump-dom", "about:blank"],
                           capture_output=True, text=True)
    if "<html>" not in empty.stdout:
        skip(f"Chromium opens no page here:\n{empty.stderr}")
    path = folder / "trace.json"
    run([command, "train", "digits", "--epochs", 1, "--steps", 8, "--trace", path])
    text = path.read_text(encoding="utf-8")
    browser = Chromium(program, folder / "profile")
    try:
        target = browser.call("Target.createTarget", {"url": "devtools://devtools/bundled/devtools_app.html"})["targetId"]
        session = browser.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for _ in range(20):  # until the page is there
            answer = browser.call("Runtime.evaluate", {"expression": "document.readyState"}, session)
            if answer.get("result", {}).get("value") == "complete":
                break
            time.sleep(0.5)
        answer = browser.call("Runtime.evaluate", {"expression": ENGINE.replace("TEXT", json.dumps(text)),
                                                   "awaitPromise": True, "returnByValue": True}, session)
    finally:
        browser.close()
    value = answer.get("result", {}).get("value")
    if value == "missing":
        skip("this Chromium has its trace engine elsewhere")
    demand(value, f"Chromium could not read the trace: {answer}")
    events = json.loads(text)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    wanted = {}
    for event in events:
        if event["ph"] == "X":
            wanted.setdefault(names[event["tid"]], []).append([event["name"], event["ts"], event["dur"]])
    read = dict(json.loads(value))
    for name, spans in wanted.items():
        demand(sorted(read.get(name, [])) == sorted(spans), f"Chromium read other spans of thread {name!r}")
    print(f"Chromium read {sum(map(len, wanted.values()))} spans of the threads {sorted(wanted)}")


def tools_python():
    named = os.environ.get("ISOCHRON_TOOLS_PYTHON")
    made = HERE.parent / "build" / "tools" / "bin" / "python"
    for python in filter(None, (named, made if made.exists() else None, sys.executable)):
        if subprocess.run([str(python), "-c", "import tensorboard"], capture_output=True).returncode == 0:
            return str(python)
    skip("no Python with the package tensorboard; make export-tools makes one, or set ISOCHRON_TOOLS_PYTHON")


READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0})
events.Reload()
tags = events.Tags()
graph = []
if tags["graph"]:
    graph = [{"name": n.name, "op": n.op, "inputs": list(n.input),
              "shapes": [[d.size for d in s.dim] for s in n.attr["_output_shapes"].list.shape],
              "type": n.attr["T"].type, "bytes": n.attr["output_bytes"].i} for n in events.Graph().node]
print(json.dumps({
    "scalars": {t: [[e.step, e.value] for e in events.Scalars(t)] for t in tags["scalars"]},
    "histograms": {t: [[e.step, e.histogram_value.num, e.histogram_value.min, e.histogram_value.max,
                        sum(e.histogram_value.bucket), len(e.histogram_value.bucket_limit)]
                       for e in events.Histograms(t)] for t in tags["histograms"]},
    "graph": graph}))
"""


def check_graph(nodes, where):
    names = [node["name"] for node in nodes]
    demand(len(names) == len(set(names)), f"{where}: two nodes have one name")
    for node in nodes:
        for source in node["inputs"]:
            demand(source.split(":")[0] in names, f"{where}: {node['name']} reads {source}, which isn't there")
    return {node["name"]: node for node in nodes}


def test_tensorboard(command, folder):
    python = tools_python()
    logs, graphs = folder / "logs", folder / "graphs"
    run([command, "train", "digits", "--epochs", 2, "--steps", 5, "--tensorboard", logs, "--gradient-histograms",
         "--graphs", graphs])
    read = {name: json.loads(run([python, "-c", READER, logs / name])) for name in ("train", "step_memory")}

    scalars = read["train"]["scalars"]
    demand([step for step, _ in scalars["epoch_loss"]] == [5, 10], f"epoch_loss {scalars.get('epoch_loss')}")
    for tag in ("epoch_accuracy", "epoch_learning_rate", "memory/in_use_bytes", "memory/resident_bytes"):
        demand(len(scalars.get(tag, [])) == 2, f"scalar {tag}: {scalars.get(tag)}")
    demand(any(tag.startswith("memory/by_tag/") for tag in scalars), f"no memory by tag among {sorted(scalars)}")

    histograms = read["train"]["histograms"]
    weights = [tag for tag in histograms if tag.startswith("weights/")]
    demand(weights and {tag.replace("weights/", "gradients/") for tag in weights} <= set(histograms),
           f"histograms {sorted(histograms)}")
    for tag, points in histograms.items():
        for step, count, low, high, inside, buckets in points:
            demand(count > 0 and inside == count and low <= high and 1 <= buckets <= 65, f"histogram {tag}: {points}")
    demand([point[:2] for point in histograms["step_time_us"]] == [[5, 5], [10, 5]], f"{histograms['step_time_us']}")

    nodes = check_graph(read["train"]["graph"], "train")
    demand(any(node["op"] == "input" and node["bytes"] > 0 and node["shapes"] for node in nodes.values()), "no input")
    demand(any(node["op"] == "variable" and "/" in name for name, node in nodes.items()), "no named variable")
    memory = read["step_memory"]["scalars"]["memory/live_arena_bytes_by_kernel"]
    demand(len(memory) > 3 and max(value for _, value in memory) > 0, f"step memory {memory}")

    counts = []
    for stage in sorted((graphs / "01-train_step").glob("*/")):
        of_stage = json.loads(run([python, "-c", READER, stage]))["graph"]
        check_graph(of_stage, stage.name)
        counts.append((stage.name, len(of_stage)))
    print(f"TensorBoard read {len(scalars)} scalars, {len(histograms)} histograms, a graph of {len(nodes)} nodes; "
          f"stages {counts}")
    demand(len(counts) >= 9, f"stages {counts}")


def test_graphs(command, folder):
    run([command, "train", "digits", "--epochs", 1, "--steps", 2, "--graphs", folder / "digits"])
    files = sorted((folder / "digits").glob("*/*.dot"))
    stages = [file.stem for file in files if file.parent.name.startswith("01")]
    demand(stages[0].endswith("forward") and stages[1].endswith("traced") and stages[-1].endswith("planned"), f"{stages}")
    rows = (folder / "digits" / "stages.csv").read_text(encoding="utf-8").splitlines()
    demand(len(rows) == 1 + len(files), f"{len(rows)} rows for {len(files)} files")
    dot = shutil.which("dot")
    if dot is None:
        skip("no Graphviz here (the package graphviz), which would draw what was written")
    for file in files:
        drawn = run([dot, "-Tsvg", file])
        demand("<svg" in drawn and "</svg>" in drawn, f"{file} gives no picture")
    print(f"dot drew {len(files)} graphs")


def test_nvtx(command, folder, listener):
    seen_path = folder / "seen.txt"
    plain = run([command, "train", "regress", "--epochs", 1, "--steps", 5])
    run([command, "train", "regress", "--epochs", 1, "--steps", 5], NVTX_INJECTION64_PATH=listener,
        ISOCHRON_NVTX_SEEN=str(seen_path))
    lines = [line.split(maxsplit=2) for line in seen_path.read_text(encoding="utf-8").splitlines()]
    demand(["domain", "isochron"] in lines, f"{lines}")
    numbers = {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}
    demand(numbers["pushed"] == numbers["popped"] > 0, f"{numbers}")
    categories = {line[1]: int(line[2]) for line in lines if line[0] == "category"}
    demand(categories.get("step") == 5 and categories.get("capture", 0) >= 3 and categories.get("kernel", 0) >= 5 and
           categories.get("phase", 0) >= 10, f"{categories}")
    messages = {line[2]: int(line[1]) for line in lines if line[0] == "message"}
    demand(messages.get("train step") == 5, f"{messages}")
    demand("test:" in plain, "the run without a tool")
    print(f"{numbers['pushed']} ranges, by category {categories}")


def main():
    tests = {"trace": test_trace, "chromium": test_chromium, "tensorboard": test_tensorboard, "graphs": test_graphs,
             "nvtx": test_nvtx}
    if len(sys.argv) < 3 or sys.argv[1] not in tests:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as name:
        tests[sys.argv[1]](sys.argv[2], pathlib.Path(name), *sys.argv[3:])


if __name__ == "__main__":
    main()
