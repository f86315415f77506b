"""Shared by the peers: command line, the cases' sizes, data and first weights, timing, and the line that is printed.

A peer script gives parse() its cases and variants, loads its framework, times one of them with a measure_ function and
hands the durations to report(). The cases:

    tiny           100 -> 10 relu -> 1, batch 32, Adam 1e-3, mean squared error
    mlp            784 -> 512 relu -> 512 relu -> 10, batch 128, Adam 1e-3, softmax cross-entropy of integer labels
    cnn            28x28x1 -> 3x3 32 relu -> 3x3 64 relu -> max pool 2 -> 128 relu -> 10 (valid padding), batch 64,
                   RMSprop 1e-3, softmax cross-entropy of integer labels
    resnet20       32x32x3 -> CIFAR ResNet-20 with batch norm and 1x1 shortcuts -> 10, batch 32, momentum 0.9 at 0.01,
                   softmax cross-entropy
    unet           64x64x3 -> U-Net of widths 32, 64, 128 with group norm (8 groups) -> 64x64x1, batch 8, Adam 1e-3, mean
                   squared error; PyTorch alone, from first weights of its own
    lstm           (48, 8) -> LSTM 64, its last output -> 1, batch 64, Adam 1e-3, mean squared error
    gpt            4 pre-norm blocks of 4 heads, width 128, context 64, 65 tokens, tied table, no biases, batch 12, AdamW
                   1e-3 with decay 0.1 of matrices, softmax cross-entropy
    epoch          tiny's model over 1,000 rows: shuffled, batches of 32 (the last has 8 rows); time per epoch
    data           the input of `epoch` alone; time per epoch
    pipeline       10,000 rows of 100 floats: map(2 x), shuffle(1000), batch(32), prefetch; time per row
    map            those rows one by one through a map that returns what it got, no thread beside; time per row
    growing_graph  x = fmod(x * 2, 7), a scalar in f64, 1,000 times; time per iteration
"""

import argparse
import array
import json
import math
import os
import sys
import time

import numpy as np

BATCHES = {"tiny": 32, "mlp": 128, "cnn": 64, "resnet20": 32, "unet": 8, "lstm": 64, "gpt": 12}
LAYERS = {
    "tiny": [(100, 10), (10, 1)],
    "mlp": [(784, 512), (512, 512), (512, 10)],
    "cnn": [(3, 3, 1, 32), (3, 3, 32, 64), (12 * 12 * 64, 128), (128, 10)],
}
EPOCH_ROWS, EPOCH_BATCH = 1000, 32
PIPELINE_ROWS = 10_000
GROWING_ITERATIONS, GROWING_START = 1000, 1.1
CHECK_STEPS = 20
WARMUP_SECONDS, WARMUP_CALLS = 0.5, 20


def weights(case):
    """[(kernel, bias)] in f32; dense kernels (in, out), convolution kernels HWIO. Every peer starts from these."""
    rng = np.random.default_rng(1)
    result = []
    for shape in LAYERS[case]:
        kernel = rng.standard_normal(shape) * math.sqrt(2.0 / math.prod(shape[:-1]))
        result.append((kernel.astype(np.float32), np.zeros(shape[-1], np.float32)))
    return result


class Kernels:
    """First weights of resnet20, lstm and gpt, drawn one after the other in the order in which models are written."""

    def __init__(self):
        self.count = 0

    def __call__(self, shape, dtype=None):
        """f32; dense kernels (in, out), convolution kernels HWIO. Serves as an initializer of Keras."""
        self.count += 1
        rng = np.random.default_rng((4, self.count))
        return (rng.standard_normal(shape) * math.sqrt(1.0 / math.prod(shape[:-1]))).astype(np.float32)


RESNET_STAGES = [(16, 1), (32, 2), (64, 2)]  # width, stride of the first block; three blocks each
GPT = {"blocks": 4, "heads": 4, "width": 128, "context": 64, "vocabulary": 65}


_resident_before = None


def resident_mb():
    """Resident memory of this process, in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") * 1e-6


def batches(case, count=8):
    """[(x, y)]: x f32, images NHWC; y (N, 1) f32 for tiny and lstm, else labels i32, (N,), or (N, T) for gpt."""
    global _resident_before
    _resident_before = resident_mb()  # the framework is loaded, nothing else
    rng = np.random.default_rng(2)
    n = BATCHES[case]
    if case == "gpt":
        return [tuple(rng.integers(0, GPT["vocabulary"], (2, n, GPT["context"]), np.int32)) for _ in range(count)]
    if case == "unet":
        return [tuple(rng.standard_normal((n, 64, 64, c)).astype(np.float32) for c in (3, 1)) for _ in range(count)]
    if case in ("resnet20", "lstm"):
        shape = (n, 32, 32, 3) if case == "resnet20" else (n, 48, 8)
        target = lambda: rng.integers(0, 10, n, np.int32) if case == "resnet20" else rng.standard_normal((n, 1)).astype(np.float32)
        return [(rng.standard_normal(shape).astype(np.float32), target()) for _ in range(count)]
    result = []
    for _ in range(count):
        x = rng.standard_normal((n, 28, 28, 1) if case == "cnn" else (n, LAYERS[case][0][0])).astype(np.float32)
        y = rng.standard_normal((n, 1)).astype(np.float32) if case == "tiny" else rng.integers(0, 10, n, np.int32)
        result.append((x, y))
    return result


def rows():
    """x (1000, 100) and y (1000, 1), f32, of the cases `epoch` and `data`."""
    rng = np.random.default_rng(3)
    return rng.standard_normal((EPOCH_ROWS, 100), np.float32), rng.standard_normal((EPOCH_ROWS, 1), np.float32)


def pipeline_rows():
    """(10000, 100), f32, of the cases `pipeline` and `map`."""
    return np.random.default_rng(4).standard_normal((PIPELINE_ROWS, 100), np.float32)


def time_calls(call, seconds):
    """Duration of each call() in nanoseconds, repeated for `seconds` after a warm-up that is not counted."""
    end = time.perf_counter() + WARMUP_SECONDS
    calls = 0
    while calls < WARMUP_CALLS or time.perf_counter() < end:
        call()
        calls += 1
    durations = array.array("q")
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while (before := time.perf_counter_ns()) < end or not durations:
        call()
        durations.append(time.perf_counter_ns() - before)
    return np.array(durations)


def measure_steps(step, framework_batches, seconds):
    """Times step(x, y), which returns a loss that float() reads, over the batches in turn.

    The loss of step CHECK_STEPS, from the common weights, shows that all peers train the same model.
    """
    for i in range(CHECK_STEPS):
        loss = step(*framework_batches[i % len(framework_batches)])
    check = float(loss)
    position = 0

    def call():
        nonlocal position
        step(*framework_batches[position])
        position = (position + 1) % len(framework_batches)

    return time_calls(call, seconds), {"loss_at_20": check}


def measure_epochs(epoch, seconds):
    """Times epoch(), which visits every row once and returns the number of rows it visited."""
    seen = epoch()
    if seen != EPOCH_ROWS:
        raise RuntimeError(f"an epoch saw {seen} rows of {EPOCH_ROWS}")
    return time_calls(epoch, seconds), {}


def measure_rows(epoch, seconds):
    """Times epoch(), which visits all rows of pipeline_rows() and returns the number of rows it visited."""
    seen = epoch()
    if seen != PIPELINE_ROWS:
        raise RuntimeError(f"an epoch saw {seen} rows of {PIPELINE_ROWS}")
    return time_calls(epoch, seconds) / PIPELINE_ROWS, {}


def measure_growing(run, seconds):
    """Times run(), which runs all iterations and returns the last x. Every operation is exact, so x must
    be exact too.
    """
    expected = GROWING_START
    for _ in range(GROWING_ITERATIONS):
        expected = math.fmod(expected * 2.0, 7.0)
    if float(run()) != expected:
        raise RuntimeError(f"x is {float(run())}, not {expected}")
    return time_calls(run, seconds) / GROWING_ITERATIONS, {}


def parse(framework, cases, devices=False):
    """Parses the command line, and sets the thread count for libraries that read it when they are loaded.

    cases: {case: [variants]}. With --list, prints them as JSON and ends. devices: takes --device, too.
    """
    parser = argparse.ArgumentParser(
        description=f"Times {framework} on one case and prints one JSON object.",
        epilog="variants: " + "; ".join(f"{case}: {', '.join(names)}" for case, names in cases.items()),
    )
    parser.add_argument("--case", choices=list(cases))
    parser.add_argument("--variant", help="the case's first variant by default")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    if devices:
        parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where train steps run")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--list", action="store_true", help="print cases and variants as JSON")
    arguments = parser.parse_args()
    if arguments.list:
        print(json.dumps(cases))
        sys.exit(0)
    if arguments.case is None:
        parser.error("--case is needed")
    arguments.variant = arguments.variant or cases[arguments.case][0]
    if arguments.variant not in cases[arguments.case]:
        parser.error(f"{arguments.case} has the variants {', '.join(cases[arguments.case])}")
    if arguments.threads < 1 or arguments.seconds <= 0:
        parser.error("--threads and --seconds must be positive")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC"):
        os.environ[name] = str(arguments.threads)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    return arguments


def precision(arguments):
    """The precision as `isochron bench` names it. Variants that compute in bf16 with f32 variables have
    bf16 in their name.
    """
    if arguments.case == "growing_graph":
        return "f64"
    return "mixed_bf16" if "bf16" in arguments.variant else "tf32" if "tf32" in arguments.variant else "f32"


def report(framework, version, arguments, durations_ns, extra):
    """Prints the measurement as one line of JSON; times are per step, epoch or iteration as the case says."""
    p50, p99 = np.percentile(durations_ns, [50, 99])
    per_call = {"growing_graph": GROWING_ITERATIONS, "pipeline": PIPELINE_ROWS, "map": PIPELINE_ROWS}.get(arguments.case, 1)
    record = {
        "peer": f"{framework} {arguments.variant}",
        "framework": framework,
        "version": version,
        "case": arguments.case,
        "precision": precision(arguments),
        "threads": arguments.threads,
        "steps": len(durations_ns) * per_call,
        "p50_us": round(float(p50) / 1e3, 4),
        "p99_us": round(float(p99) / 1e3, 4),
        "min_us": round(float(durations_ns.min()) / 1e3, 4),
    }
    if _resident_before is not None:  # model, data and the framework's memory for them
        record["memory_mb"] = round(resident_mb() - _resident_before, 1)
    print(json.dumps(record | extra), flush=True)
