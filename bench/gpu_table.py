#!/usr/bin/env python3
"""What bench/gpu_figures.sh has measured, beside what is asked: bench/gpu_table.py FOLDER

The folder holds rates.txt (device_rates), tests.txt, path.txt, and what bench/torch_cuda.py --json has written: a file
for each part. A figure whose file or line is missing was not measured, and the table says so.
"""

import json
import math
import re
import sys
from pathlib import Path

KB, MB = 1 << 10, 1 << 20


class Table:
    def __init__(self, folder):
        self.folder, self.rows = folder, []

    def text(self, name):
        file = self.folder / name
        return file.read_text(errors="replace") if file.exists() else ""

    def json(self, name):
        try:
            return json.loads(self.text(name))
        except ValueError:  # a part that was cut short leaves half a file, or none
            return None

    def add(self, what, asked, seen, is_met):
        verdict = "not measured" if seen is None else "met" if is_met(seen) else "MISSED"
        words = "" if seen is None else seen if isinstance(seen, str) else f"{seen:.3g}"
        self.rows.append((what, asked, words, verdict))

    def most(self, what, limit, seen, unit=""):
        self.add(what, f"<= {limit}{unit}", seen, lambda value: value <= limit)

    def least(self, what, limit, seen, unit=""):
        self.add(what, f">= {limit}{unit}", seen, lambda value: value >= limit)

    def print(self):
        widths = [max(len(row[i]) for row in self.rows) for i in range(3)]
        for what, asked, seen, verdict in [("figure", "asked", "seen", ""), *self.rows]:
            print(f"{what:<{widths[0]}}  {asked:<{max(5, widths[1])}}  {seen:>{max(4, widths[2])}}  {verdict}".rstrip())


def add_rates(table):
    text = table.text("rates.txt")
    calls = {(int(ranks), int(size)): float(us) for ranks, size, us in
             re.findall(r"^(\d+) ranks  all_reduce +(\d+) B  device +([\d.]+) us", text, re.M)}
    alone = {int(ranks): float(us) for ranks, us in
             re.findall(r"^(\d+) ranks  one kernel alone, 256 MB +([\d.]+) us", text, re.M)}
    for ranks, limit in ((2, 15), (8, 20)):
        short = [us for (many, size), us in calls.items() if many == ranks and size <= MB]
        table.most(f"all_reduce of 64 B - 1 MB, {ranks} ranks, blocking, the slowest", limit, max(short, default=None),
                   " us")
    for ranks in (2, 4, 8):
        us = calls.get((ranks, 256 * MB))
        table.most(f"all_reduce of 256 MB, {ranks} ranks, over one kernel alone", 1.1,
                   us / alone[ranks] if us and ranks in alone else None)
    verbs = re.findall(r"^(\d+) ranks  (\w+) +(\d+) MB .* ([\d.]+) of a copy", text, re.M)
    for size in (64, 256):
        chosen = [(float(part), f"{verb}, {ranks} ranks") for ranks, verb, many, part in verbs if int(many) == size]
        part, which = min(chosen, default=(None, "none"))
        table.least(f"every verb of {size} MB, bytes a second over a copy's, the least ({which})", 0.75, part)


def add_busy(table):
    for ranks in (2, 4, 8):
        rows = table.json(f"busy_{ranks}.json")
        table.most(f"all_reduce of 64 MB on a busy GPU, {ranks} ranks, median over the idle one", 1.2,
                   rows["busy"][0] / rows["idle"][0] if rows else None)


def mean_ratio(rows, keep):
    chosen = [row["gloo_over_tutti"] for row in rows or [] if keep(row["bytes"])]
    return math.exp(sum(map(math.log, chosen)) / len(chosen)) if chosen else None


def add_torch(table):
    for ranks in (2, 8):
        rows = table.json(f"torch_{ranks}.json")
        table.least(f"dist.all_reduce over gloo, {ranks} ranks, geometric mean up to 1 MB", 30,
                    mean_ratio(rows, lambda size: size <= MB), " x")
        table.least(f"dist.all_reduce over gloo, {ranks} ranks, geometric mean from 16 MB", 300,
                    mean_ratio(rows, lambda size: size >= 16 * MB), " x")
    table.least("dist.all_reduce by TCP over gloo, 2 ranks, geometric mean from 16 MB", 2,
                mean_ratio(table.json("tcp.json"), lambda size: size >= 16 * MB), " x")
    steps = table.json("steps.json")
    table.least("a step of a GPT of 124 M weights, 4 ranks, over gloo", 3,
                steps["gloo"] / steps["tutti"] if steps else None, " x")


def add_tests(table):
    for name, what in (("path.txt", "a blocking call: no allocation, no lock, <= 1 launch, <= 1 synchronise"),
                       ("tests.txt", "make test-gpu")):
        text = table.text(name)
        ended = re.search(r"^== ended with (\d+)$", text, re.M)
        table.add(what, "passes", None if ended is None else "passes" if ended[1] == "0" else "fails",
                  lambda seen: seen == "passes")


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("usage: bench/gpu_table.py FOLDER, as bench/gpu_figures.sh has left it", file=sys.stderr)
        return 2
    table = Table(Path(sys.argv[1]))
    for add in (add_rates, add_busy, add_torch, add_tests):
        add(table)
    table.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
