#!/usr/bin/env python3
"""Predicts the time of a step on many ranks from measurements on one machine:

    python3 benchmarks/scale_model.py measured         # which benchmarks/scale_out.sh writes

Measured are: the time of an all-reduce by size, the step and the backward pass of one rank, and for
each bucket of gradients its bytes and the time at which it is complete. The communication thread
sends the buckets in order, each when it is complete and the one before has arrived. The step ends
when the backward pass and the last bucket have ended, and the rest of the step has run.

An all-reduce of S bytes on n ranks consists of (dist/communicator.cpp):

    wake the communication thread      f
    headers to all ranks               L + (n - 1) o
    parts to all ranks                 L + (n - 1) o + S (n - 1) / n / B
    sum of the parts, and copies       S c
    sums of all parts, along a ring    (n - 1) (L + o) + S (n - 1) / n / B

where L is the latency and B the bandwidth of the network; f, the processor time o of a message, and
c, that of a byte, are measured between two and four ranks that share memory, where L and 1 / B are 0.
Four ranks on two cores take turns, which makes o too large.

The prediction for the machine itself is compared with the measured steps. There the communication
threads have no cores of their own, so nothing is hidden: the prediction is the step of as many ranks
that do not communicate, plus the all-reduces of the buckets as they were measured on these ranks.
"""
import sys

NETWORKS = [("25 Gbit/s, 20 us", 25e9 / 8, 20e-6), ("200 Gbit/s, 2 us", 200e9 / 8, 2e-6)]
RANKS = [8, 16, 64, 256, 1024]


def keep_least(table, key, value):
    table[key] = min(table.get(key, value), value)


def read(path):
    """Returns engine[ranks][bytes], schedules[name] = (step, backward, buckets), steps[name][ranks]
    and alone[name][ranks]: the least of several runs, which other load on the machine changes
    least. Of the steps of a run the median counts: ranks that share a core take turns, so the
    fastest step of a rank is one that another rank did not interrupt."""
    engine, schedules, steps, alone = {}, {}, {}, {}
    for line in open(path):
        words = line.rstrip("\n").split("\t")
        if words[0] == "engine":
            times = engine.setdefault(int(words[1]), {})
            keep_least(times, int(words[2]), float(words[3]))
        elif words[0] == "schedule":
            buckets = [tuple(map(float, word.split(":"))) for word in words[4:]]
            keep_least(schedules, words[1], (float(words[2]), float(words[3]), buckets))
        elif words[0] in ("tapegrad", "alone"):
            table = steps if words[0] == "tapegrad" else alone
            keep_least(table.setdefault(words[1], {}), int(words[2]), float(words[3]) / 1e3)
    return engine, schedules, steps, alone


def interpolate(times, size):
    """Returns the time of an all-reduce, interpolated between measured sizes."""
    sizes = sorted(times)
    if size <= sizes[0]:
        return times[sizes[0]]
    for low, high in zip(sizes, sizes[1:]):
        if size <= high:
            return times[low] + (times[high] - times[low]) * (size - low) / (high - low)
    return times[sizes[-1]] * size / sizes[-1]


def all_reduce(n, size, bandwidth, latency, fixed, message, byte):
    wire = size * (n - 1) / n / bandwidth
    headers = latency + (n - 1) * message
    parts = latency + (n - 1) * message + wire
    ring = (n - 1) * (latency + message) + wire
    return fixed + headers + parts + size * byte + ring


def step_of(schedule, cost):
    """Returns the time of a step whose all-reduces take cost(bytes)."""
    step, backward, buckets = schedule
    end = 0.0
    for size, ready in buckets:
        end = max(end, ready) + cost(size)
    return step - backward + max(backward, end)


def main():
    engine, schedules, steps, alone = read(sys.argv[1])
    small = {n: min(time for size, time in engine[n].items() if size <= 1024) for n in (2, 4)}
    message = (small[4] - small[2]) / 6  # in headers, parts and sums, two messages more
    fixed = small[2] - 3 * message
    large = 4 << 20
    byte = (engine[2][large] - small[2]) / large
    print(f"An all-reduce takes {1e6 * fixed:.1f} us, {1e6 * message:.1f} us for each message, and "
          f"{1e9 * byte:.2f} ns for each byte.\n")

    print("| network | ranks | predicted ms | measured ms | error |\n|---|---|---|---|---|")
    for name, schedule in schedules.items():
        for n in sorted(engine):
            reduces = sum(interpolate(engine[n], size) for size, _ in schedule[2])
            predicted = alone[name][n] + reduces
            measured = steps[name][n]
            print(f"| {name} | {n} | {1e3 * predicted:.1f} | {1e3 * measured:.1f} | "
                  f"{100 * (predicted / measured - 1):+.0f} % |")

    print("\n| network | bytes of gradients | buckets | link |", *(f"{n} |" for n in RANKS))
    print("|---" * (4 + len(RANKS)) + "|")
    for name, schedule in schedules.items():
        for link, bandwidth, latency in NETWORKS:
            cells = []
            for n in RANKS:
                cost = lambda size: all_reduce(n, size, bandwidth, latency, fixed, message, byte)
                cells.append(f"{100 * schedule[0] / step_of(schedule, cost):.0f} % |")
            size = sum(bucket[0] for bucket in schedule[2])
            print(f"| {name} | {size / 1e6:.1f} MB | {len(schedule[2])} | {link} |", *cells)


main()
