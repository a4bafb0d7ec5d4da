"""Compares what the programs of scripts/gpu-check expect with what a profile has. Each comparison is a line: the verdict, what,
what was expected and what was counted. The exit code is 1 if any differs. What has no right or wrong begins with `measured`."""

import argparse
import csv
import json
import math
import re
import statistics
import subprocess
import sys
import traceback
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).resolve().parent
# So many standard errors an estimate may be off.
MOST_ERRORS = 4
# What tells rows of the two sides apart.
KEY = ["rank", "peer_rank", "memory", "kernel", "access", "width", "object", "line"]

has_failed = False


def verdict(holds, what, expected, counted):
    global has_failed
    has_failed |= not holds
    print(f"{'ok     ' if holds else 'DIFFERS'}  {what}: expected {expected}, counted {counted}")


def measured(what, text):
    """A line of what is no comparison, since there is nothing that it should be."""
    print(f"measured {what}: {text}")


def table(path):
    if not path.exists():
        return []  # where nothing was counted
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def lines_of(sources):
    """Where the sources are marked: `// @NAME`."""
    found = {}
    for source in sources:
        for number, text in enumerate((HERE / source).read_text().splitlines(), 1):
            for name in re.findall(r"// @(\w+)", text):
                found[name] = f"{source}:{number}"
    return found


def name_of(key):
    row = dict(zip(KEY, key))
    width = "bulk" if row["width"] == "0" else row["width"]
    return (f"rank {row['rank']} {row['kernel']} {row['line']} {row['access']} {width} of {row['memory']} "
            f"'{row['object']}' of {row['peer_rank'] or '?'}")


def counted_in(profile):
    """Rows of gpu.csv, by what tells them apart: accesses, bytes, squares of the errors."""
    found = defaultdict(lambda: [0, 0, 0.0])
    for row in table(profile / "gpu.csv"):
        # Without the folder of the source.
        row["line"] = row["source"].rpartition("/")[2]
        sums = found[tuple(row[name] for name in KEY)]
        sums[0] += int(row["accesses"])
        sums[1] += int(row["bytes"])
        sums[2] += float(row["error"]) ** 2
    return found


def fits(key, expected):
    """Whether it is what is expected, in which `*` is anything."""
    return all(wanted in ("*", has) for has, wanted in zip(key, expected))


def pairs_of(arguments):
    """What is expected with what was counted, and what is left over of that."""
    lines = lines_of(arguments.sources)
    counted = counted_in(arguments.profile)
    files = sorted(arguments.expected.glob("*.csv"))
    wanted = [row for file in files for row in table(file)]
    for row in wanted:
        row["line"] = lines.get(row["line"], row["line"])
    keys = [tuple(row[name] for name in KEY) for row in wanted]
    pairs = []
    # What may be anything takes what is left.
    for key, row in sorted(zip(keys, wanted), key=lambda it: "*" in it[0]):
        found = next((it for it in counted if fits(it, key)), None)
        pairs.append((key, (int(row["accesses"]), int(row["bytes"])), counted.pop(found, [0, 0, 0.0])))
    return pairs, counted


def notes_of(profile):
    run = json.loads((profile / "run.json").read_text())
    return [it for it in run.get("notes", []) if "GPU" in it or "gpu" in it or "device" in it or "module" in it]


def notes(profile):
    told = notes_of(profile)
    verdict(not told, "notes of the profile about the GPU", "none", "; ".join(told) or "none")


def rows(arguments):
    pairs, left = pairs_of(arguments)
    verdict(bool(pairs), "something is expected", "yes", len(pairs))
    kernel = KEY.index("kernel")
    some = [it for it in pairs if arguments.some and fnmatch(it[0][kernel], arguments.some)]
    are_less = False
    for pair in pairs:
        key, expected, (accesses, volume, _) = pair
        is_less = pair in some and accesses < expected[0]
        are_less |= is_less
        verdict(is_less or (accesses, volume) == expected, name_of(key), expected, (accesses, volume))
    for key, (accesses, volume, _) in left.items():
        verdict(False, name_of(key), (0, 0), (accesses, volume))
    if are_less:
        # One of each rank.
        told = {"where others had been unloaded" in it for it in notes_of(arguments.profile)}
        verdict(told == {True}, "a note of the kernels of which not all was counted", {True}, told)
    else:
        notes(arguments.profile)


def sampled(arguments):
    off, squares, estimates, worst = 0.0, 0.0, 0, 0.0
    for profile in arguments.profiles:
        arguments.profile = profile
        pairs, left = pairs_of(arguments)
        for key, (accesses, _), (counted, _, square) in pairs:
            if key[KEY.index("width")] == "0":
                continue
            estimates += 1
            off += counted - accesses
            squares += square
            error = math.sqrt(square)
            if counted != accesses:
                worst = max(worst, abs(counted - accesses) / error if error else math.inf)
            if abs(counted - accesses) > MOST_ERRORS * error:
                verdict(False, name_of(key), f"{accesses} within {MOST_ERRORS} x {error:.0f}", counted)
        for key, (accesses, _, _) in left.items():
            verdict(False, name_of(key), 0, accesses)
    verdict(estimates > 0 and worst <= MOST_ERRORS, f"{estimates} estimates, the one that is furthest off",
            f"within {MOST_ERRORS} standard errors", f"{worst:.2f}")
    all_off = off / math.sqrt(squares) if squares else math.inf
    verdict(abs(all_off) <= MOST_ERRORS, "all of them together, off by", f"within {MOST_ERRORS} standard errors",
            f"{all_off:.2f}")


def records(arguments):
    counted, recorded = defaultdict(int), defaultdict(int)
    for row in table(arguments.profile / "gpu.csv"):
        counted[row["kernel"], row["access"], row["width"], row["memory"], row["source"]] += int(row["accesses"])
    for file in sorted(arguments.records.glob("*.zst")):
        command = [arguments.through, "gpu-records", file]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        for row in csv.DictReader(text.splitlines()):
            key = row["kernel"], row["access"], row["width"], row["memory"], row["source"]
            recorded[key] += 1 if row["width"] == "0" else bin(int(row["lanes"], 16)).count("1")
    differ = {key for key in set(counted) | set(recorded) if counted[key] != recorded[key]}
    for key in sorted(differ):
        verdict(False, "records of " + " ".join(key), counted[key], recorded[key])
    verdict(not differ and bool(counted), "accesses in records and in gpu.csv", sum(counted.values()),
            sum(recorded.values()))
    notes(arguments.profile)


def launched(arguments):
    """What a kernel of PyTorch loads from the other rank, and the Python line that launched it."""
    volume, line = arguments.expected.read_text().strip().split(",")
    rows_of_other = [row for row in table(arguments.profile / "gpu.csv") if row["memory"] == "ipc"]
    loaded = [row for row in rows_of_other if row["access"] == "load"]
    told = {(row["rank"], row["peer_rank"]) for row in rows_of_other}
    verdict(told == {("1", "0")}, "who accesses whose memory", {("1", "0")}, told)
    verdict(sum(int(row["bytes"]) for row in loaded) == int(volume), "bytes that PyTorch's kernels loaded", volume,
            sum(int(row["bytes"]) for row in loaded))
    lines = {row.get("launched", "").rpartition("/")[2] for row in rows_of_other}
    verdict(lines == {line}, "the Python line that launched them", {line}, lines)
    notes(arguments.profile)


def traced(arguments):
    """What the trace says of the questions in docs/reference/gpu-status.md, in few lines: kinds of lines, how often, and one of each."""
    kinds = {}
    for file in arguments.traces:
        for line in file.read_text(errors="replace").splitlines():
            text = line.partition(" ")[2]
            # Numbers and addresses differ from line to line; flags, events and states are what tells kinds apart.
            kind = re.sub(r"\b(?!flags|status|event|site|number|permissions|visibility|device|source|kind)(\w+)=\S+",
                          r"\1", text)
            kind = re.sub(r"(?<!=)\b0x[0-9a-f]+|\b[0-9a-f]{16,}\b|\b\d{4,}\b", "N", kind)
            count, example = kinds.get(kind, (0, text))
            kinds[kind] = (count + 1, example)
    for count, example in list(kinds.values())[: arguments.most]:
        print(f"{count:7}  {example[:240]}")
    if len(kinds) > arguments.most:
        print(f"         and {len(kinds) - arguments.most} more kinds of lines")


def calls(arguments):
    """Calls and bytes of calls.csv. What programs do on MPI_COMM_WORLD and MPI_COMM_SELF themselves is left out, since that prepares them."""
    key = ["rank", "comm", "call", "memory"]
    wanted = [row for file in sorted(arguments.expected.glob("*.csv")) for row in table(file)]
    comms = {(row["rank"], row["comm"]) for row in wanted}
    counted = defaultdict(lambda: [0, 0])
    for row in table(arguments.profile / "calls.csv"):
        patterns = [comm for rank, comm in comms if rank == row["rank"] and fnmatch(row["comm"], comm)]
        if patterns or re.match(r"[FNP]|W_", row["comm"]):
            # The longest pattern is that of a part: `N1-*` fits its name, too.
            comm = max(patterns, key=len, default=row["comm"])
            sums = counted[row["rank"], comm, row["call"], row["memory"]]
            sums[0] += int(row["calls"])
            sums[1] += int(row["bytes"])
    verdict(bool(wanted), "something is expected", "yes", len(wanted))
    for row in wanted:
        wanted_key = tuple(row[name] for name in key)
        found = next((it for it in counted if fits(it, wanted_key)), None)
        sums = tuple(counted.pop(found, (0, 0)))
        expected = int(row["calls"]), int(row["bytes"])
        kinds = f" of {found[3]} memory" if found else ""
        verdict(sums == expected, f"rank {row['rank']} {row['comm']} {row['call']}{kinds}, calls and bytes", expected, sums)
    for found, sums in counted.items():
        verdict(False, " ".join(found), (0, 0), tuple(sums))


def nccl_times(arguments):
    """Calls of nccl-times.csv that were timed, and that were not, and the time within a tenth of the program's own, if it has one."""
    wanted = [row for file in sorted(arguments.expected.glob("*.csv")) for row in table(file)]
    comms = {(row["rank"], row["comm"]) for row in wanted}
    counted = defaultdict(lambda: [0, 0, 0.0])
    for row in table(arguments.profile / "nccl-times.csv"):
        patterns = [comm for rank, comm in comms if rank == row["rank"] and fnmatch(row["comm"], comm)]
        sums = counted[row["rank"], max(patterns, key=len, default=row["comm"]), row["call"]]
        sums[0] += int(row["calls"])
        sums[1] += int(row["untimed"])
        sums[2] += float(row["gpu_s"])
    verdict(bool(wanted), "something is expected", "yes", len(wanted))
    for row in wanted:
        key = row["rank"], row["comm"], row["call"]
        calls, untimed, gpu_s = counted.pop(key, (0, 0, 0.0))
        expected = int(row["calls"]), int(row["untimed"])
        verdict((calls, untimed) == expected, f"rank {' '.join(key)}, timed and not", expected, (calls, untimed))
        if row["gpu_s"] != "*":
            own_s = float(row["gpu_s"])
            verdict(abs(gpu_s - own_s) <= 0.1 * own_s, f"rank {' '.join(key)}, seconds on the GPU", f"{own_s:.6f}", f"{gpu_s:.6f}")
    for key, (calls, untimed, _) in counted.items():
        verdict(False, f"rank {' '.join(key)}, timed and not", (0, 0), (calls, untimed))


def copies(arguments):
    """Sums of copies.csv and staged.csv, whatever the driver's functions are: by mode and memory, and by communicator; with the line
    where one is expected. Where PyTorch makes copies of its own, only those of the expected lines are looked at."""
    wanted = [row for file in sorted(arguments.expected.glob("*.csv")) for row in table(file)]
    by_line = any("line" in row for row in wanted)
    key = ["rank", "table", "comm", "direction", "mode", "from", "to"] + ["line"] * by_line
    counted, calls, times = defaultdict(lambda: [0, 0]), defaultdict(set), defaultdict(float)
    for row in table(arguments.profile / "copies.csv"):
        here = dict(row, table="copies", comm="", direction="", line=row["line"].rpartition(":")[2])
        found = tuple(here[name] for name in key)
        counted[found][0] += int(row["calls"])
        counted[found][1] += int(row["bytes"])
        calls[found].add(row["call"])
        times[found] += float(row["time_s"])
    for row in table(arguments.profile / "staged.csv"):
        here = dict(row, table="staged", to="", line="")
        here["from"] = row["memory"]
        found = tuple(here[name] for name in key)
        counted[found][0] += int(row["matches"])
        counted[found][1] += int(row["bytes"])
        times[found] += float(row["time_s"])
    verdict(bool(wanted), "something is expected", "yes", len(wanted))
    for row in wanted:
        wanted_key = tuple(row[name] for name in key)
        found = next((it for it in counted if fits(it, wanted_key)), None)
        names = f" ({', '.join(sorted(calls[found]))})" if calls.get(found) else ""
        sums = tuple(counted.pop(found, (0, 0)))
        what = " ".join(it or "-" for it in (found or wanted_key))
        verdict(sums == (int(row["calls"]), int(row["bytes"])), f"{what}{names}, calls and bytes",
                (int(row["calls"]), int(row["bytes"])), sums)
        verdict(times[found] > 0, f"{what}, seconds", "some", f"{times[found]:.9f}")
    for found, sums in counted.items():
        # Of PyTorch's own copies nothing is known.
        if not by_line or found[key.index("table")] == "staged":
            verdict(False, " ".join(it or "-" for it in found) + f" ({', '.join(sorted(calls[found]))})", (0, 0), tuple(sums))
    notes(arguments.profile)


def price(arguments):
    """What a call costs by its kind in two modes: medians over runs. Nothing says what it should be, but each has to be measured."""
    costs = defaultdict(list)
    for file in sorted(arguments.runs.glob("*.csv")):
        for row in csv.DictReader(line for line in file.read_text().splitlines() if "," in line):
            costs[row["kind"], file.name.split(".")[0]].append(float(row["call_ns"]))
    middle = {key: statistics.median(values) for key, values in costs.items()}
    kinds = list(dict.fromkeys(kind for kind, _ in costs))
    if not kinds:
        verdict(False, "costs were measured", "some", "none")
    for kind in kinds:
        before, after = (middle.get((kind, mode)) for mode in arguments.modes)
        if before and after:
            measured(kind, f"{before:.0f} ns {arguments.modes[0]}, {after:.0f} ns {arguments.modes[1]}, {after - before:+.0f} ns")
        else:
            verdict(False, f"cost of {kind}, {' and '.join(arguments.modes)}", "two numbers", (before, after))


def agent(arguments):
    """What the agent read of the GPUs, beside what nvidia-smi says of them."""
    read = [row for file in sorted(arguments.timeline.glob("*.gpus.csv")) for row in table(file)]
    for line in arguments.gpus.splitlines():
        index, uuid, bus, mebibytes, mig = (it.strip() for it in line.split(","))
        row = next((it for it in read if it["uuid"] == uuid), {})
        verdict(row.get("device") == f"gpu{index}", f"device of {uuid}", f"gpu{index}", row.get("device"))
        # The domain has four or eight digits.
        address = row.get("pci_address", "").lower()
        verdict(address.lstrip("0") == bus.lower().lstrip("0"), "PCI address", bus, address)
        verdict(int(row.get("memory_bytes", 0)) >> 20 == int(mebibytes), "MiB", mebibytes, int(row.get("memory_bytes", 0)) >> 20)
        expected = {"Enabled": "1", "Disabled": "0"}.get(mig, "")
        verdict(row.get("mig") == expected, "divided by MIG", expected, row.get("mig"))
    command = [arguments.through, "timeline", arguments.timeline, "--format", "csv", "--table", "nodes"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rates = [row for row in csv.DictReader(text.splitlines()) if row["source"] == "gpu"]
    busy = [float(row["value"]) for row in rates if row["quantity"] == "busy_s"]
    used = [float(row["value"]) for row in rates if row["quantity"] == "used_bytes"]
    print("read of the GPU:", *sorted({f"{row['device']} {row['quantity']}" for row in rates}), sep="\n  ")
    verdict(bool(busy) and 0.8 < max(busy) <= 1.0001, "largest part of an interval in which a kernel ran", "nearly 1", busy)
    verdict(bool(used) and max(used) > 2 << 30, "memory in use, of two ranks with 1 GiB each", "over 2 GiB", used)


def cpus_of(text):
    """The numbers in `0-3,8`."""
    ends = (part.split("-") for part in text.strip().split(",") if part)
    return {cpu for end in ends for cpu in range(int(end[0]), int(end[-1]) + 1)}


def numa_nodes_of(cpus):
    """The NUMA nodes of this machine that have one of the CPUs."""
    lists = Path("/sys/devices/system/node").glob("node*/cpulist")
    return {int(file.parent.name[4:]) for file in lists if cpus_of(file.read_text()) & cpus}


def topology(text):
    """The cells of `nvidia-smi topo -m`: how each GPU is connected to GPUs and network adapters, by their names."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    names = dict(re.findall(r"^\s*(NIC\d+): (\S+)", plain, re.MULTILINE))
    lines = [[cell.strip() for cell in line.split("\t")] for line in plain.splitlines()]
    heads = next((line for line in lines if "GPU0" in line), [])
    for line in lines:
        if re.fullmatch(r"GPU\d+", line[0]):
            for head, cell in zip(heads[1:], line[1:]):
                if re.fullmatch(r"(GPU|NIC)\d+", head):
                    yield line[0], names.get(head, head), cell


def gpus(arguments):
    """Which GPU each rank used, and what gpus.csv and its neighbours say of it, beside nvidia-smi and /sys."""
    for name in ("gpus", "gpu-links", "nics"):
        file = arguments.profile / f"{name}.csv"
        print(f"{name}.csv:", file.read_text() if file.exists() else "none", sep="\n")
    ranks = table(arguments.profile / "ranks.csv")
    rows = {row["uuid"]: row for row in table(arguments.profile / "gpus.csv")}
    listed = [[it.strip() for it in line.split(",")] for line in arguments.gpus.splitlines()]
    seen = [it for it in listed if arguments.visible in ("all", it[0])]
    used = seen[0][0] if seen else ""
    users = cpus_of(arguments.users) if seen else set()
    for row in ranks:
        expected = used if int(row["rank"]) in users else ""
        verdict(row["gpu"] == expected, f"GPU of rank {row['rank']}", expected or "none", row["gpu"] or "none")
        nodes = numa_nodes_of(cpus_of(row["cpus_allowed"]))
        if seen and nodes and int(row["rank"]) in users:
            found = cpus_of(row["numa_nodes"])
            verdict(found == nodes, f"NUMA nodes of rank {row['rank']}", nodes, found)
    verdict(set(rows) == {it[0] for it in seen}, "GPUs in gpus.csv", sorted(it[0] for it in seen), sorted(rows))
    for uuid, bus, model, mebibytes in seen:
        row = rows.get(uuid, defaultdict(str))
        # The domain has four or eight digits.
        address = row["pci_address"]
        verdict(address and address.lstrip("0") == bus.lower().lstrip("0"), "PCI address", bus, address)
        verdict(row["model"] == model, "name", model, row["model"])
        # The driver keeps a part of it.
        part = int(row["memory_bytes"] or 0) / (int(mebibytes) << 20)
        verdict(0.94 < part <= 1.0001, "memory by nvidia-smi's", "0.94 to 1", f"{part:.4f}")
        verdict(row["mig"] == "0", "a MIG instance", "0", row["mig"])
        folder = Path("/sys/bus/pci/devices") / address
        if address and folder.exists():
            node = int((folder / "numa_node").read_text())
            verdict(row["numa_node"] == (str(node) if node >= 0 else ""), "NUMA node", node, row["numa_node"])
            near = cpus_of((folder / "local_cpulist").read_text())
            verdict(cpus_of(row["cpus_near"]) == near, "CPUs near", near, row["cpus_near"])
            path = str(folder.resolve())
            verdict(row["pci_path"] and path.endswith("/" + row["pci_path"]), "way in the PCI tree", path, row["pci_path"])
        else:
            print(f"/sys has no {address}")
        expected = arguments.users if uuid == used else ""
        verdict(row["ranks"] == expected, f"ranks of {uuid}", expected or "none", row["ranks"])
        if arguments.nvlinks is not None and uuid == used:
            verdict(row["nvlinks"] == str(arguments.nvlinks), "active NVLinks", arguments.nvlinks, row["nvlinks"] or "unknown")
    ways(arguments, [it[0] for it in listed], {it[0] for it in seen})


def ways(arguments, listed, seen):
    """How the GPUs that were seen are connected to each other and to network adapters, beside `nvidia-smi topo -m`."""
    links = {frozenset((row["device"], row["peer"])): row for row in table(arguments.profile / "gpu-links.csv")}
    names = {f"GPU{number}": uuid for number, uuid in enumerate(listed)}
    print(arguments.topology)
    compared = set()
    for device, peer, cell in topology(arguments.topology):
        pair = frozenset((names.get(device, device), names.get(peer, peer)))
        # No profile has the GPUs that no rank saw.
        if pair in compared or len(pair) < 2 or (pair & set(listed)) - seen:
            continue
        compared.add(pair)
        row = links.get(pair, {"path": "no row", "nvlinks": "no row"})
        if cell in ("PIX", "PXB", "PHB", "NODE", "SYS"):
            verdict(row["path"] == cell, f"path from {device} to {peer}", cell, row["path"] or "unknown")
        elif match := re.fullmatch(r"NV(\d+)", cell):
            # They are unknown where they lead to switches, and unless NVML was initialised.
            if row["nvlinks"]:
                verdict(row["nvlinks"] == match[1], f"NVLinks from {device} to {peer}", match[1], row["nvlinks"])
            else:
                measured(f"NVLinks from {device} to {peer}", "unknown to the profile")


def bench(arguments):
    """That all bytes of a pattern arrived."""
    lines = [line for line in arguments.log.read_text().splitlines() if line.count(",") > 5]
    read = list(csv.DictReader(lines))
    verified = [row["verified"] for row in read]
    verdict(bool(read) and set(verified) == {"true"}, f"all bytes arrive: {arguments.words}", "true", verified)
    for row in read:
        print("  ", *(f"{name} {value}" for name, value in row.items() if value), sep=" ")


MODES = ["untraced", "empty", "aggregated", "sampled", "intervals", "records"]
# How many times as long a kernel may take, by workload and mode.
MOST_SLOWDOWN = {("stencil", "aggregated"): 3.0, ("stencil", "intervals"): 1.5, ("alone", "aggregated"): 1.5}


def cost(arguments):
    """A table for docs/explanation/gpu-tracing.md from the runs in a folder: MODE.ROUND.csv. All workloads that are named have to be timed in all modes."""
    times = defaultdict(list)
    for file in sorted(arguments.runs.glob("*.csv")):
        mode = file.name.split(".")[0]
        for row in table(file):
            for what in ("kernel_us", "step_us"):
                # Of intervals few steps count: their mean says what they cost.
                if what == "kernel_us" and mode == "intervals":
                    row[what] = row["mean_kernel_us"]
                if float(row[what] or 0) > 0:
                    times[row["workload"], what, mode].append(float(row[what]))
    middle = {key: statistics.median(values) for key, values in times.items()}
    print("| | untraced, µs | " + " | ".join(f"{mode}, ×" for mode in MODES[1:]) + " |")
    print("| --- |" + " ---: |" * len(MODES))
    for workload in dict.fromkeys(key[0] for key in times):
        for what, text in (("kernel_us", "kernel"), ("step_us", "step")):
            base = middle.get((workload, what, "untraced"))
            if not base:
                continue
            ratios = [middle.get((workload, what, mode)) for mode in MODES[1:]]
            cells = ["" if it is None else f"{it / base:.2f}" for it in ratios]
            text = "until the first kernel has run" if workload == "start" else f"{workload}, {text}"
            print(f"| {text} | {base:.1f} | " + " | ".join(cells) + " |")
    for workload in arguments.workloads:
        timed = [mode for mode in MODES if (workload, "kernel_us", mode) in middle]
        verdict(timed == MODES, f"modes in which {workload} was timed", " ".join(MODES), " ".join(timed) or "none")
        for mode in timed:
            if most := MOST_SLOWDOWN.get((workload, mode)):
                slowdown = middle[workload, "kernel_us", mode] / middle.get((workload, "kernel_us", "untraced"), math.nan)
                verdict(slowdown <= most, f"slowdown of the kernel of {workload}, {mode}", f"at most {most}", f"{slowdown:.2f}")


def parsed():
    """The arguments, with the comparison that they name as `act`."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, act in (("rows", rows), ("sampled", sampled)):
        command = commands.add_parser(name)
        command.set_defaults(act=act)
        command.add_argument("--expected", type=Path, required=True)
        command.add_argument("--source", dest="sources", action="append", default=[])
        if name == "rows":
            command.add_argument("--some", help="kernels of which fewer accesses may be counted, if a note says so")
            command.add_argument("profile", type=Path)
        else:
            command.add_argument("profiles", type=Path, nargs="+")
    command = commands.add_parser("records")
    command.set_defaults(act=records)
    command.add_argument("--through", required=True)
    command.add_argument("profile", type=Path)
    command.add_argument("records", type=Path)
    command = commands.add_parser("launched")
    command.set_defaults(act=launched)
    command.add_argument("profile", type=Path)
    command.add_argument("expected", type=Path)
    command = commands.add_parser("traced")
    command.set_defaults(act=traced)
    command.add_argument("--most", type=int, default=60)
    command.add_argument("traces", type=Path, nargs="+")
    for name, act in (("calls", calls), ("nccl-times", nccl_times), ("copies", copies)):
        command = commands.add_parser(name)
        command.set_defaults(act=act)
        command.add_argument("--expected", type=Path, required=True)
        command.add_argument("profile", type=Path)
    command = commands.add_parser("agent")
    command.set_defaults(act=agent)
    command.add_argument("--through", required=True)
    command.add_argument("timeline", type=Path)
    command.add_argument("gpus")
    command = commands.add_parser("gpus")
    command.set_defaults(act=gpus)
    command.add_argument("--users", required=True, help="the ranks that use the first GPU")
    command.add_argument("--visible", default="all", help="the UUID of the GPU that is seen alone, or none")
    command.add_argument("--nvlinks", type=int)
    command.add_argument("profile", type=Path)
    command.add_argument("gpus")
    command.add_argument("topology")
    command = commands.add_parser("bench")
    command.set_defaults(act=bench)
    command.add_argument("words")
    command.add_argument("log", type=Path)
    command = commands.add_parser("price")
    command.set_defaults(act=price)
    command.add_argument("--modes", nargs=2, default=["without", "profiled"])
    command.add_argument("runs", type=Path)
    command = commands.add_parser("cost")
    command.set_defaults(act=cost)
    command.add_argument("--workload", dest="workloads", action="append", required=True)
    command.add_argument("runs", type=Path)
    return parser.parse_args()


def main():
    arguments = parsed()
    try:
        arguments.act(arguments)
    except Exception as error:
        traceback.print_exc()
        verdict(False, "the comparison itself", "an end", repr(error))
    sys.exit(1 if has_failed else 0)


if __name__ == "__main__":
    main()
