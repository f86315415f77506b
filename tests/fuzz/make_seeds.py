#!/usr/bin/env python3
"""Writes the good inputs of each fuzz target to seeds/TARGET/good_*; other files there are left alone.

Images and examples are those of tests/golden; run from anywhere, needs Python alone.
"""

import ast
import gzip
import json
import pathlib
import struct
import zipfile
import zlib

FOLDER = pathlib.Path(__file__).resolve().parent
GOLDEN = FOLDER.parent / "golden"
LOGS = FOLDER.parent / "apps" / "logs"
MOST_OF_A_LOG = 2500  # bytes; a fuzzer changes small inputs sooner
DATASETS = FOLDER.parent.parent / "datasets"


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(content):
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(content):
    length = struct.pack("<Q", len(content))
    return length + masked(length) + content + masked(content)


def npy(descr, shape, content, fortran=False, version=1):
    text = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + content


def npz(entries, method):
    path = FOLDER / "archive.tmp"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, method)
    content = path.read_bytes()
    path.unlink()
    return content


def idx(code, shape, content):
    return bytes([0, 0, code, len(shape)]) + b"".join(struct.pack(">I", extent) for extent in shape) + content


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def golden_images():
    with zipfile.ZipFile(GOLDEN / "images_tf.npz") as archive:
        for name in archive.namelist():
            if name.endswith(".file.npy"):
                content = archive.read(name)
                end = 10 + struct.unpack("<H", content[8:10])[0]
                assert ast.literal_eval(content[10:end].decode())["descr"] == "|u1"
                yield name.removesuffix(".file.npy"), content[end:]


def golden_records():
    content = (GOLDEN / "example_tf.tfrecord").read_bytes()
    while content:
        length = struct.unpack("<Q", content[:8])[0]
        yield content[12 : 12 + length]
        content = content[16 + length :]


def co2_lines():
    lines = (DATASETS / "co2_weekly.csv").read_text().splitlines()
    return "\n".join(line for line in lines if line[:4] in ("date", "1987", "1988", "1989", "1990")) + "\n"


def seeds():
    ramp = struct.pack("<6f", *range(6))
    arrays = {"a.npy": npy("<f4", (2, 3), ramp), "b.npy": npy("|u1", (), b"\7")}
    header = {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"k": "v"},
              "b": {"dtype": "BOOL", "shape": [], "data_offsets": [24, 25]}}
    records = b"".join(record(content) for content in (b"first", b"", b"x" * 40))
    lines = b"one\ntwo\r\n\nfour"
    cifar = [bytes([label]) + bytes(i % 251 for i in range(3072)) for label in (3, 7)]
    digits = "".join(",".join(str((i * j) % 17) for j in range(64)) + f",{i}\n" for i in range(6)).encode()
    yield from {
        "analyze_known_log/good_forced": b"keras\n8/8 - 1s 5ms/step\nEpoch 2 took 1s\n",
        "analyze_known_log/good_escapes": b"\n\x1b]0;a\x07\x1b[31mstep 1\x1b[0m: 5 ms\b\b\x1bP\x1b\\step 2: 6 ms\r\x1b(B"
                                          b"step 3: 7 ms\x1b[",
        "analyze_log/good": b"([0-9.]+)(ms|us|s)/step\n32/32 - 1s 21.5ms/step - loss: 0.5\nEpoch 2\n3us/step\n",
        "analyze_log/good_gzip": b"Time: ([0-9.]+)\n" + gzip.compress(b"Time: 0.25 seconds\n" * 5, mtime=0),
        "analyze_log/many_ways": b"((a*)*)*(.*(.*(.*)))b([0-9])\n" + b"a" * 400 + b"\n",
        "analyze_log/large": b"(((x{100}){100}){100})\nxxx\n",
        "analyze_log/back_reference": b"(a)\\1\naa\n",
        "analyze_table/good": b"step_ms\nstep;step_ms\n1;12.5\n2;13\n",
        "analyze_table/good_numbers": b"0\n1.5,2\n+3,x\n",
        "analyze_table/good_groups": b"ms tokens rank phase\nphase,rank,tokens,ms\ntrain,0,5,10\ntrain,1,5,\n"
                                    b"val,0,5,nan\nval,0,5,1\ntr",
        "analyze_table/good_only": b"\ntime (ns)\r\n\"1e3\"\r\n7\r\n",
        "analyze_table/utf16": b"\n\xff\xfe" + "time_ms\n1\n".encode("utf-16-le"),
        "cifar10/good": cifar[0] + cifar[1],
        "cifar100/good": b"\x13" + cifar[0] + b"\x00" + cifar[1],
        "choices/good": b"+kernel\tmatmul 32x100\nother kernel\tconvolution\n",
        "choices/good_none": b"+",
        "choices/plain": b"isochron choices 1\nmachine\nkernel\tcall\nend 0123456789abcdef\n",
        "co2/good": co2_lines().encode(),
        "csv/good": b"\x00" + b"1,2.5\n-3e2, 4\n",
        "csv/good_header": b"\x01\xef\xbb\xbfx,\"y, z\"\r\n1,\"2\"\r\n3,4\r\n",
        "csv/good_missing": b"\x0e" + b"1;2\n;nan\n-inf;+4\n\n",
        "csv/good_columns": b"\x10" + b"1,text\n2,\"te\"\"xt\"\n",
        "csv/good_gzip": b"\x04" + gzip.compress(b"1\n\n2\n\n\n", mtime=0),
        "digits/good": digits,
        "framed_records/good": b"\x05first\x00\x03abc",
        "framed_records/long": b"\x02ok\xff\x00\x00\x00\x01\x00\x00\x00\x00rest",
        "idx/good_u8": idx(8, (2, 3), b"abcdef"),
        "idx/good_i16": idx(11, (2,), b"\x01\x02\xff\xfe"),
        "idx/good_f64": gzip.compress(idx(14, (1,), struct.pack(">d", -2.5)), mtime=0),
        "npy/good": arrays["a.npy"],
        "npy/good_fortran": npy(">i4", (2, 3), struct.pack(">6i", *range(6)), fortran=True, version=2),
        "npy/good_scalar": arrays["b.npy"],
        "npz/good_stored": npz(arrays, zipfile.ZIP_STORED),
        "npz/good_deflated": npz(arrays, zipfile.ZIP_DEFLATED),
        "plan/good": b"id,lower,upper,size\na,0,3,64\nb,2,5,100\n# c,1,2,3\n\n",
        "plan/good_columns": b"size, note ,upper,id,lower\r\n8,x,9,first,1\r\n",
        "records/good": b"\x00" + records,
        "records/good_gzip": b"\x01" + gzip.compress(records, mtime=0),
        "records/good_zlib": b"\x02" + zlib.compress(records),
        "safetensors/good": safetensors(header, ramp + b"\1"),
        "safetensors_header/good": struct.pack(">H", 25) + json.dumps(header).encode(),
        "safetensors_header/nested": struct.pack(">H", 0) + b'{"a":' + b"[" * 500,
        "terminal_text/good": b"\x05plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\n\ttext",
        "terminal_text/good_controls": b"\x03a\x1b[2J\x1b]0;title\x07\r\x9b\xc2\x9b1m\x7f\xe2\x80\xaeb\x00",
        "terminal_text/good_no_utf8": b"\x02\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82",
        "text/good": b"some text\nand more\xc3\xa4",
        "text_lines/good": lines,
        "text_lines/good_gzip": gzip.compress(lines, mtime=0),
        "tokens/good_u16": b"\x05" + struct.pack("<6H", *range(6)),
        "tokens/good_i64": b"\xc3" + b"hdr" + struct.pack("<3q", 1, 2, 199),
    }.items()
    for i, content in enumerate(golden_records()):
        yield f"example/good_{i}", content
    for path in sorted(LOGS.glob("*.log")):
        yield f"analyze_known_log/good_{path.stem}", b"\n" + path.read_bytes()[:MOST_OF_A_LOG]
    for name, content in golden_images():
        kind, form = name.split("_", 1)
        yield f"{kind}/good_{form}", content


def main():
    for old in FOLDER.glob("seeds/*/good*"):
        old.unlink()
    count = 0
    for name, content in seeds():
        path = FOLDER / "seeds" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        count += 1
    print(f"{count} seeds")


if __name__ == "__main__":
    main()
