#!/usr/bin/env python3
"""Runs a command on several ranks that are joined by a network of a given bandwidth: each is in a network namespace of its
own, and an Ethernet bridge between them is shaped in both directions. Needs root, `ip`, `tc` and Open MPI. The
namespaces are removed at the end.

usage: shaped_network.py [--ranks N] [--rate RATE] [--slow RANK=RATE] COMMAND [ARGUMENT...]

    shaped_network.py --rate 1gbit build/release/bin/isochron train gpt --batch 48 --threads 1 --json gpt.json
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SUBNET = "10.77.0"


def run(*words):
    subprocess.run(words, check=True)


class Network:
    """Namespaces rank0, rank1, ... joined by a bridge in a namespace of its own."""

    def __init__(self, rates):
        self.prefix = f"isochron{os.getpid()}-"
        self.rates = rates
        self.made = []

    def namespace(self, rank):
        return f"{self.prefix}{rank}"

    def __enter__(self):
        try:
            self.add("hub")
            run("ip", "-n", self.namespace("hub"), "link", "add", "bridge", "type", "bridge")
            run("ip", "-n", self.namespace("hub"), "link", "set", "bridge", "up")
            for rank, rate in enumerate(self.rates):
                self.join(rank, rate)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def add(self, rank):
        run("ip", "netns", "add", self.namespace(rank))
        self.made.append(self.namespace(rank))

    def join(self, rank, rate):
        self.add(rank)
        own, hub = self.namespace(rank), self.namespace("hub")
        run("ip", "link", "add", "name", "eth0", "netns", own, "type", "veth", "peer", "name", f"port{rank}", "netns", hub)
        run("ip", "-n", own, "addr", "add", f"{SUBNET}.{rank + 1}/24", "dev", "eth0")
        run("ip", "-n", own, "link", "set", "lo", "up")
        run("ip", "-n", own, "link", "set", "eth0", "up")
        run("ip", "-n", hub, "link", "set", f"port{rank}", "master", "bridge", "up")
        if rate == "none":
            return
        for space, device in ((own, "eth0"), (hub, f"port{rank}")):
            run("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate,
                "burst", "256k", "latency", "50ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rate", default="1gbit", help="of every rank, as tc has it; none: not shaped")
    parser.add_argument("--slow", metavar="RANK=RATE", action="append", default=[], help="of one of them")
    parser.add_argument("--mpirun", default=shutil.which("mpirun.openmpi") or "mpirun")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("a command is expected")
    if os.geteuid() != 0:
        parser.error("only root can make network namespaces")
    rates = [arguments.rate] * arguments.ranks
    for slow in arguments.slow:
        rank, _, rate = slow.partition("=")
        if not rank.isdigit() or int(rank) >= arguments.ranks or not rate:
            parser.error(f"--slow {slow}: RANK=RATE with a rank from 0 to {arguments.ranks - 1} is expected")
        rates[int(rank)] = rate
    with Network(rates) as network, tempfile.TemporaryDirectory() as folder:
        # In place of ssh: HOST COMMAND..., where HOST is the address of a rank.
        agent = pathlib.Path(folder, "agent")
        agent.write_text(f'#!/bin/sh\nrank=$((${{1##*.}} - 1)); shift\n'
                         f'exec ip netns exec {network.prefix}$rank sh -c "$*"\n')
        agent.chmod(0o755)
        hosts = ",".join(f"{SUBNET}.{rank + 1}:1" for rank in range(arguments.ranks))
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        return subprocess.run(
            ["ip", "netns", "exec", network.namespace(0), arguments.mpirun, "--bind-to", "none",
             "--mca", "plm_rsh_agent", agent, "--mca", "pml", "ob1", "--mca", "btl", "self,tcp",
             "--mca", "btl_tcp_if_include", f"{SUBNET}.0/24", "--mca", "oob_tcp_if_include", f"{SUBNET}.0/24",
             "-host", hosts, "-np", str(arguments.ranks), *arguments.command],
            env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
