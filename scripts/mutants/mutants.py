#!/usr/bin/env python3
"""Plants faults in the sources, one at a time, and runs the tests that should find each.

    mutants.py                 all of them, in a copy of the tree below build/mutants; exit 1 where a fault survives
    mutants.py --only NAME     one of them, or those of a pattern as of file names (may be given several times)
    mutants.py --list          what there is
    mutants.py --self-test     checks that every fault can still be planted and names tests that exist; builds nothing

The list is in mutants_list.py. A fault survives when its tests pass. One that changes nothing that anybody could notice
says so in `equivalent`; it is listed, not planted. Exit 2: a fault can't be planted or doesn't compile, or the tests
fail without any.
"""

import argparse
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from mutants_list import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("core", "memory", "graph", "ops", "backends", "autograd", "optim", "nn", "data", "observe", "train", "apps")
LEAST = 100
TIMEOUT_SECONDS = 600  # a fault may well make a test endless


def planted(mutant, text):
    """The file's text with the fault in it. Raises ValueError unless there is exactly one place for it."""
    places = text.count(mutant.old)
    if places != 1:
        raise ValueError(f"{mutant.name}: {mutant.file} has {places} places for the fault, expected one: {mutant.old!r}")
    if mutant.old == mutant.new:
        raise ValueError(f"{mutant.name}: the fault changes nothing")
    return text.replace(mutant.old, mutant.new)


def test_names(program):
    """The full names of a program's tests from its sources, without parameters: Prefix/Suite.Name of TEST_P."""
    text = "\n".join(source.read_text() for source in sorted((ROOT / "tests" / program).rglob("*.cc")))
    prefixes = {}
    for prefix, suite in re.findall(r"\bINSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)", text):
        prefixes.setdefault(suite, []).append(f"{prefix}/{suite}")
    names = set()
    for kind, suite, name in re.findall(r"\b(TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\s*\)", text):
        suites = prefixes.get(suite, []) if kind == "TEST_P" else [f"{suite}/0" if kind == "TYPED_TEST" else suite]
        names.update(f"{each}.{name}" for each in suites)
    return names


def check(mutants):
    """Violations, as texts."""
    found = []
    names = [mutant.name for mutant in mutants]
    found += [f"{name} appears {names.count(name)} times" for name in sorted(set(names)) if names.count(name) > 1]
    if len(mutants) < LEAST:
        found.append(f"{len(mutants)} faults, expected {LEAST} or more")
    folders = {mutant.file.split("/")[0] for mutant in mutants}
    found += [f"no fault in {folder}/" for folder in FOLDERS if folder not in folders]
    for mutant in mutants:
        try:
            planted(mutant, (ROOT / mutant.file).read_text())
        except (OSError, ValueError) as error:
            found.append(str(error))
        tests = test_names(mutant.program)
        for pattern in mutant.filter.split(":"):
            plain = re.sub(r"(\..*)/[^/]*$", r"\1", pattern)  # without a parameter
            if not any(fnmatch.fnmatchcase(test, plain) for test in tests):
                found.append(f"{mutant.name}: no test of tests/{mutant.program} is called {pattern}")
    return found


class Workplace:
    """A copy of the tree with a build of its own, so that nobody's sources change. The build lies in the copy as that of
    `make test` in the tree, so that ccache has what was compiled there."""

    def __init__(self, folder, jobs):
        self.source = folder / "source"
        self.build = self.source / "build" / "release"
        self.jobs = jobs

    def refresh(self):
        """Brings the copy up to date; files that are the same keep their times, so little is built again."""
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                                capture_output=True, text=True).stdout.split("\0")
        wanted = {name for name in listed if name and (ROOT / name).is_file()}
        for link in (name for name in listed if name and (ROOT / name).is_symlink() and name not in wanted):
            if not (self.source / link).is_symlink():
                (self.source / link).parent.mkdir(parents=True, exist_ok=True)
                (self.source / link).symlink_to(os.readlink(ROOT / link))
        for name in sorted(wanted):
            to = self.source / name
            if to.is_file() and to.read_bytes() == (ROOT / name).read_bytes():
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to)
        for folder, below, names in os.walk(self.source):
            if pathlib.Path(folder) == self.source:
                below[:] = [name for name in below if name != "build"]
            for path in [pathlib.Path(folder) / name for name in names]:
                if str(path.relative_to(self.source)) not in wanted:
                    path.unlink()

    def configure(self):
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        subprocess.run(["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                        "-DISOCHRON_TESTS=ON", "-DISOCHRON_BENCH=OFF", "--log-level=WARNING", *launcher],
                       check=True, stdout=subprocess.DEVNULL)

    def make(self, programs):
        """None, or the compiler's messages."""
        environment = dict(os.environ, CCACHE_BASEDIR=str(self.source), CCACHE_NOHASHDIR="1")
        targets = [f"{program}_test" for program in programs]
        done = subprocess.run(["cmake", "--build", self.build, "-j", str(self.jobs), "--target", *targets],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return None if done.returncode == 0 else done.stdout[-3000:]

    def test(self, program, tests):
        """True if all of them pass; raises ValueError if none ran."""
        command = [self.build / "bin" / f"{program}_test", "--gtest_brief=1", f"--gtest_filter={tests}"]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode == 0 and re.search(r"^\[==========\] 0 tests", done.stdout, re.MULTILINE):
            raise ValueError(f"{program}_test has no test called {tests}")
        return done.returncode == 0


def run(mutants, workplace):
    """The exit code."""
    workplace.refresh()
    workplace.configure()
    said = workplace.make(sorted({mutant.program for mutant in mutants}))
    if said is not None:
        print(f"The tree doesn't build:\n{said}")
        return 2
    for program, tests in sorted({(mutant.program, mutant.filter) for mutant in mutants}):
        if not workplace.test(program, tests):
            print(f"{program}_test --gtest_filter={tests} fails without any fault")
            return 2
    survivors, broken = [], []
    for mutant in mutants:
        began = time.monotonic()
        path = workplace.source / mutant.file
        original = path.read_text()
        try:
            path.write_text(planted(mutant, original))
            said = workplace.make([mutant.program])
            if said is not None:
                broken.append(mutant.name)
                print(f"{mutant.name}: doesn't compile:\n{said}", flush=True)
                continue
            survived = workplace.test(mutant.program, mutant.filter)
        finally:
            path.write_text(original)
        if survived:
            survivors.append(mutant.name)
        print(f"{'SURVIVED' if survived else 'found':9} {mutant.name} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{len(mutants)} faults: {len(mutants) - len(survivors) - len(broken)} found, {len(survivors)} survived"
          + (f", {len(broken)} not built" if broken else ""))
    for name in survivors:
        print(f"  {name}")
    return 2 if broken else 1 if survivors else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the faults and end")
    parser.add_argument("--only", action="append", metavar="NAME", help="plant this fault alone")
    parser.add_argument("--self-test", action="store_true", help="check that every fault can be planted, and end")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "mutants",
                        help="where the copy and its build lie (default: build/mutants)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.list:
        for mutant in MUTANTS:
            print(f"{mutant.name:38} {mutant.file:32} {mutant.program}_test {mutant.filter}"
                  + (f"  equivalent: {mutant.equivalent}" if mutant.equivalent else ""))
        return 0
    if arguments.self_test:
        found = check(MUTANTS)
        for text in found:
            print(text)
        print(f"mutants: {len(MUTANTS)} faults, {len(found)} of them can't be planted or found" if found else
              f"mutants: {len(MUTANTS)} faults can be planted, and their tests exist")
        return 1 if found else 0
    chosen = [mutant for mutant in MUTANTS if not mutant.equivalent]
    if arguments.only:
        def named(mutant):
            return {only for only in arguments.only if fnmatch.fnmatchcase(mutant.name, only)}
        unknown = sorted(set(arguments.only) - set().union(*map(named, chosen)))
        if unknown:
            parser.error(f"no fault called {', '.join(unknown)}")
        chosen = [mutant for mutant in chosen if named(mutant)]
    flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    for mutant in (mutant for mutant in chosen if mutant.needs and mutant.needs not in flags):
        print(f"{'left out':9} {mutant.name}: the processor has no {mutant.needs}")
    chosen = [mutant for mutant in chosen if not mutant.needs or mutant.needs in flags]
    return run(chosen, Workplace(arguments.folder, arguments.jobs))


if __name__ == "__main__":
    sys.exit(main())
