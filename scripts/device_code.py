#!/usr/bin/env python3
"""What NVRTC makes of the kernels of the reference cases, for devices that aren't there.

    scripts/device_code.py build/release/bin/isochron build/release/simulated_driver
        [--capability 7.5 9.0] [--case gpt] [--precision f32] [--out FILE] [--compare bench/results/device_code.json]
    scripts/device_code.py --self-test    plant what is worse in a list and demand that each is found

Each case is planned by `isochron bench --device cuda --plain-kernels` over the tests' libcuda.so.1, which takes on the given
compute capability; what is compiled is read back from the cache. Of each kernel come registers a thread, bytes of stack
(what doesn't fit in registers, and arrays that are indexed at run time), static shared memory, and how many loads from
global memory read 16, 8 or fewer bytes; of each case, how many nodes the graph of a step has, and how many instructions run one
after another. Exit status 1 where a kernel has more stack or shared memory than it may; with --compare what is worse than
in that file is named, and exit status 1 where a graph has more nodes, or a kernel more stack or fewer loads of 16 bytes, if
the same compiler made both. --out writes such a file, a JSON object a line. What is compiled is kept in the
folder that ISOCHRON_HOST_KERNELS names, for the next time. Without NVRTC it says so and exits 77.
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

CAPABILITIES = ["7.5", "8.0", "9.0", "10.0", "12.0"]
CASES = ["tiny", "mlp", "cnn", "resnet20", "lstm", "gpt"]
PRECISIONS = ["f32", "mixed_bf16"]
MOST_STACK = 40  # bytes: calls of printf, which tell of indices out of range, and the sine of huge numbers
MOST_SHARED = 48 << 10
MORE_NODES = 2  # than listed: of two equally fast ways, one may have one more launch
# Entries of .nv.info: a format, an attribute, and either a two-byte value or a size followed by that many bytes.
SIZED, FRAME_SIZE, REGISTERS = 4, 0x11, 0x2F
LOAD_CODES = {0x381, 0x981}  # LDG, without and with a descriptor; bits 73 to 75 of an instruction tell how wide it is
WIDE, DOUBLE = 6, 5

Kernel = collections.namedtuple("Kernel", "registers stack shared loads_16 loads_8 loads_4")


def sections(elf):
    """[(name, content, link, info)]."""
    begin, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, begin + i * size) for i in range(count)]
    text = lambda at: elf[headers[names][4] + at :].split(b"\0", 1)[0].decode()
    empty = 8  # SHT_NOBITS
    return [(text(h[0]), b"" if h[1] == empty else elf[h[4] : h[4] + h[5]], h[5], h[6]) for h in headers]


def symbols(elf, parts):
    """Their names, by number."""
    table = next(content for name, content, _, _ in parts if name == ".symtab")
    strings = next(content for name, content, _, _ in parts if name == ".strtab")
    return [strings[struct.unpack_from("<I", table, at)[0] :].split(b"\0", 1)[0].decode() for at in range(0, len(table), 24)]


def per_kernel(info, attribute, names):
    """{kernel: value} of an attribute in .nv.info."""
    found, at = {}, 0
    while at + 4 <= len(info):
        form, what, value = struct.unpack_from("<BBH", info, at)
        if form == SIZED:
            if what == attribute:
                symbol, number = struct.unpack_from("<II", info, at + 4)
                found[names[symbol]] = number
            at += value
        at += 4
    return found


def loads(code):
    """How many instructions of a kernel load 16, 8 and fewer bytes from global memory."""
    count = collections.Counter()
    for at in range(0, len(code) - 15, 16):
        low, high = struct.unpack_from("<QQ", code, at)
        if low & 0xFFF in LOAD_CODES:
            count[high >> 9 & 7] += 1
    return count[WIDE], count[DOUBLE], sum(count.values()) - count[WIDE] - count[DOUBLE]


def kernels_of(elf):
    parts = sections(elf)
    names = symbols(elf, parts)
    info = next(content for name, content, _, _ in parts if name == ".nv.info")
    registers, stack = per_kernel(info, REGISTERS, names), per_kernel(info, FRAME_SIZE, names)
    shared = {name.removeprefix(".nv.shared."): size for name, _, size, _ in parts if name.startswith(".nv.shared.")}
    result = {}
    for name, code, _, _ in parts:
        kernel = name.removeprefix(".text.")
        if name.startswith(".text.") and kernel in registers:
            result[kernel] = Kernel(registers[kernel], stack.get(kernel, 0), shared.get(kernel, 0), *loads(code))
    return result


def copy_all(paths, folder):
    """Copies the files with their times, if possible; another process may replace or remove cached files meanwhile."""
    for path in paths:
        partial = folder / f".{path.name}.{os.getpid()}"
        with contextlib.suppress(OSError):
            shutil.copy2(path, partial)
            partial.replace(folder / path.name)


def compile_case(arguments, case, precision, capability):
    """({kernel: Kernel}, the compiler's version, seconds, nodes of the step's graph, and of its longest chain)."""
    kept = None
    if folder := os.environ.get("ISOCHRON_HOST_KERNELS"):
        kept = pathlib.Path(folder) / "device_code" / f"{capability}-{case}-{precision}"
        with contextlib.suppress(OSError):
            kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        if kept:
            copy_all(kept.glob("kernels-*.cubin"), pathlib.Path(cache))
        since = time.time()
        libraries = [str(arguments.driver), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        here = {"LD_LIBRARY_PATH": ":".join(libraries), "ISOCHRON_CACHE": cache, "ISOCHRON_SIMULATED_CAPABILITY": capability}
        command = [str(arguments.isochron), "bench", "--json", "--case", case, "--precision", precision, "--device", "cuda",
                   "--plain-kernels", "--steps", "1", "--seconds", "0.01"]
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | here)
        seconds = time.monotonic() - begin
        if done.returncode != 0:
            missing = "NVRTC is not found: " in done.stderr
            print(f"{case} {precision} for {capability}: {done.stderr.strip()}", file=sys.stderr)
            sys.exit(77 if missing else 1)
        result, versions = {}, set()
        used = [path for path in sorted(pathlib.Path(cache).glob("kernels-*.cubin")) if path.stat().st_mtime >= since]
        for path in used:
            content = path.read_bytes()
            result |= kernels_of(content[content.index(b"\x7fELF") :])
            versions |= {found.decode() for found in re.findall(rb"compilation tools, release [\d.]+, V([\d.]+)", content)}
        if kept:
            copy_all(used, kept)
            for path in kept.glob("kernels-*.cubin"):
                if pathlib.Path(cache) / path.name not in used:
                    with contextlib.suppress(OSError):
                        path.unlink()
        measured = json.loads(done.stdout.splitlines()[0])
        return result, " ".join(sorted(versions)), seconds, measured["device_nodes"], measured["longest_chain"]


def summary(label, kernels, seconds, nodes, chain):
    total = [sum(values) for values in zip(*((k.loads_16, k.loads_8, k.loads_4) for k in kernels.values()))]
    most = max(kernels.items(), key=lambda item: item[1].registers)
    return (f"{label:<25} {len(kernels):>7} {most[1].registers:>9}  {most[0]:<32}"
            f"{max(k.stack for k in kernels.values()):>6} {max(k.shared for k in kernels.values()):>7}"
            f" {total[0]:>8} {total[1]:>7} {total[2]:>7} {seconds:>8.1f} {nodes:>6} {chain:>6}")


def worse(now, before):
    """([what is worse and must never be], [what else is worse than it was]) for a kernel."""
    found, else_found = [], []
    if now.stack > before.stack:
        found.append(f"{now.stack} bytes of stack, {before.stack} before")
    if now.loads_16 < before.loads_16:
        found.append(f"{now.loads_16} loads of 16 bytes, {before.loads_16} before")
    if now.registers > before.registers + 8:
        else_found.append(f"{now.registers} registers, {before.registers} before")
    return found, else_found


def compared(record, before):
    """([errors], [what is only reported]) for a case's record compared with the listed one, or None."""
    if before is None:
        return [], [f"{record['of']}: not in the list"]
    same = record.get("compiler") == before.get("compiler")
    told = [] if same else [f"{record['of']}: compiled by {record.get('compiler')}, listed of {before.get('compiler')}"]
    errors = []
    nodes, most = record["nodes"], before["nodes"] + MORE_NODES
    if nodes > most:
        errors.append(f"{record['of']}: a step's graph has {nodes} nodes, at most {most} are listed")
    for name, kernel in record["kernels"].items():
        if (old := before["kernels"].get(name)) is None:
            told.append(f"{record['of']} {name}: not in the list")
            continue
        never, other = ([f"{record['of']} {name}: {text}" for text in texts] for texts in worse(Kernel(*kernel), Kernel(*old)))
        errors += never if same else []
        told += other if same else never + other
    return errors, told


def self_test():
    kernel = Kernel(registers=40, stack=24, shared=2048, loads_16=4, loads_8=1, loads_4=8)

    def record(compiler="13.0.88", name="matmul_1", nodes=120, **changes):
        kernels = {name: list(kernel._replace(**changes))}
        return {"of": "9.0 gpt f32", "compiler": compiler, "nodes": nodes, "chain": 80, "kernels": kernels}

    # What is planted, the number of errors it causes, and the number of differences that are only reported.
    planted = {
        "nothing": (record(), 0, 0),
        "what is better": (record(stack=0, registers=30, loads_16=6), 0, 0),
        "a spill": (record(stack=32), 1, 0),
        "a lost wide load": (record(loads_16=3, loads_8=3), 1, 0),
        "both": (record(stack=32, loads_16=0), 2, 0),
        "more registers": (record(registers=49), 0, 1),
        "a spill by another compiler": (record(compiler="13.1.0", stack=32), 0, 2),
        "another way of as many launches or so": (record(nodes=122), 0, 0),
        "more launches": (record(nodes=123), 1, 0),
        "another kernel": (record(name="matmul_2", stack=32), 0, 1),
    }
    listed = json.loads(json.dumps(record()))
    missed = []
    for what, (now, errors, told) in planted.items():
        found = compared(now, listed)
        if (len(found[0]), len(found[1])) != (errors, told):
            missed.append(f"{what}: {found}")
    if compared(record(stack=32), None) != ([], ["9.0 gpt f32: not in the list"]):
        missed.append("a case that isn't in the list")
    for text in missed:
        print(f"self-test: {text}", file=sys.stderr)
    print(f"device code: self-test, {len(planted) + 1} planted lists, {len(missed)} missed")
    return 1 if missed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description="What NVRTC makes of the kernels of the reference cases.")
    parser.add_argument("isochron", type=pathlib.Path)
    parser.add_argument("driver", type=pathlib.Path, help="the folder of the tests' libcuda.so.1")
    parser.add_argument("--capability", nargs="+", default=CAPABILITIES)
    parser.add_argument("--case", nargs="+", default=CASES)
    parser.add_argument("--precision", nargs="+", default=PRECISIONS)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--compare", type=pathlib.Path)
    arguments = parser.parse_args()
    before = {}
    if arguments.compare:
        for line in arguments.compare.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            before[record["of"]] = record

    print(f"{'':<25} {'kernels':>7} {'registers':>9}  {'most in':<32}{'stack':>6} {'shared':>7}"
          f" {'16 bytes':>8} {'8':>7} {'fewer':>7} {'seconds':>8} {'nodes':>6} {'chain':>6}")
    lines, wrong, told = [], [], []
    for capability in arguments.capability:
        for case, precision in itertools.product(arguments.case, arguments.precision):
            label = f"{capability} {case} {precision}"
            kernels, compiler, seconds, nodes, chain = compile_case(arguments, case, precision, capability)
            if not any(k.loads_16 + k.loads_8 + k.loads_4 for k in kernels.values()):
                sys.exit(f"{label}: no load is found in {len(kernels)} kernels; are instructions coded otherwise?")
            print(summary(label, kernels, seconds, nodes, chain), flush=True)
            record = {"of": label, "compiler": compiler, "nodes": nodes, "chain": chain, "kernels": kernels}
            lines.append(json.dumps(record))
            for name, kernel in kernels.items():
                if kernel.stack > MOST_STACK:
                    wrong.append(f"{label} {name}: {kernel.stack} bytes of stack, at most {MOST_STACK}")
                if kernel.shared > MOST_SHARED:
                    wrong.append(f"{label} {name}: {kernel.shared} bytes of shared memory, at most {MOST_SHARED}")
            if arguments.compare:
                errors, changes = compared(record, before.get(label))
                wrong += errors
                told += changes
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for text in told + wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
