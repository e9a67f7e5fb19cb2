"""Joins the measurements of our benchmark and of the peers, prints one table and writes the results.

Usage: table.py NAME --ours OURS.json --peers PEERS.jsonl [--out RESULTS.json] [--not-run TEXT]...

OURS.json    {"rows": [{name, ours, other, ratio, unit, note}], "ours": {"append_16": RATE, ...},
              "counts": {"append_16": {stored, lost, duplicated, refused}, ...}}; may be missing or empty;
             "counts" may also be one {stored, lost, duplicated, refused} over all rounds
PEERS.jsonl  the lines that the peer scripts print; may be missing or empty

Only the standard library is used, so that the table needs no installation.
"""

import argparse
import json
import os
import pathlib
import platform

COUNTS = ("stored", "lost", "duplicated", "refused")
ROW = ("name", "ours", "other", "ratio", "unit", "note")


def read_json(path):
    """The JSON of a file; an empty object if the file is missing or empty."""
    if path is None or not path.is_file() or not path.read_text().strip():
        return {}
    return json.loads(path.read_text())


def read_lines(path):
    """The JSON objects of a file, one per line."""
    if path is None or not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


def ratio(ours, other):
    return round(ours / other, 2) if ours and other else None


def writers_of(key):
    """16 for "append_16", None for other keys."""
    head, _, tail = key.rpartition("_")
    return int(tail) if head == "append" and tail.isdigit() else None


def label(writers):
    return f"append, {writers} writer" + ("" if writers == 1 else "s")


def join(ours, peers):
    """All rows in order: those of our benchmark, then for each number of writers our rate and each peer's."""
    rows = [dict(row) for row in ours.get("rows", [])]
    rates = {writers_of(key): rate for key, rate in ours.get("ours", {}).items()}
    counts = {writers_of(key): count for key, count in ours.get("counts", {}).items()}
    if "stored" in ours.get("counts", {}):
        over_all = {"name": "append, all writers and rounds: ours", "unit": "messages", "note": ""}
        rows.append({**over_all, **{key: ours["counts"].get(key) for key in COUNTS}})
    rates_by_name = ours.get("ours", {})
    for line in (line for line in peers if "measure" in line):
        rate = rates_by_name.get(line["measure"])
        rows.append(
            {
                "name": f"{line['measure'].replace('_', ' ')}: {line['peer']} {line['version']}",
                "ours": rate,
                "other": line["per_second"],
                "ratio": ratio(rate, line["per_second"]),
                "unit": line["unit"],
                "note": line["note"],
            }
        )
    measured = [line for line in peers if "not_run" not in line and "measure" not in line]
    known = {writers for writers in rates if writers is not None} | {line["writers"] for line in measured}
    for writers in sorted(known):
        rate = rates.get(writers)
        if rate is not None:
            alone = {"name": f"{label(writers)}: ours", "ours": rate, "other": None, "ratio": None}
            alone.update(unit="messages/s", note="")
            alone.update({key: value for key, value in (counts.get(writers) or {}).items() if key in COUNTS})
            rows.append(alone)
        whole = None
        for line in (line for line in measured if line["writers"] == writers):
            row = {
                "name": f"{label(writers)}: {line['peer']} {line['version']}",
                "ours": rate,
                "other": line["per_second"],
                "ratio": ratio(rate, line["per_second"]),
                "unit": "messages/s",
                "note": line["note"],
            }
            row.update({key: line[key] for key in COUNTS})
            rows.append(row)
            if line["lost"] == line["duplicated"] == line["refused"] == 0:
                if whole is None or line["per_second"] > whole["per_second"]:
                    whole = line
        if whole is not None and writers > 1:
            rows.append(
                {
                    "name": f"{label(writers)}: fastest peer that keeps every message",
                    "ours": rate,
                    "other": whole["per_second"],
                    "ratio": ratio(rate, whole["per_second"]),
                    "unit": "messages/s",
                    "note": whole["peer"],
                }
            )
    return rows


def number(value, digits=0):
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if digits == 0 and isinstance(value, float) and abs(value) < 100:
        digits = 1 if abs(value) >= 10 else 3
    return f"{value:,.{digits}f}"


def cells(row):
    return [
        row["name"],
        number(row.get("ours")),
        number(row.get("other")),
        number(row.get("ratio"), 2),
        row.get("unit") or "",
        *(number(row.get(key)) for key in COUNTS),
        row.get("note") or "",
    ]


def show(rows):
    """Prints the rows with aligned columns: text on the left, numbers on the right."""
    head = ["name", "ours", "other", "ratio", "unit", *COUNTS, "note"]
    lines = [head, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    left = {0, 4, len(head) - 1}
    for index, line in enumerate(lines):
        parts = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths))
        ]
        print("  ".join(parts).rstrip())
        if index == 0:
            print("  ".join("-" * min(width, 60) if column == len(head) - 1 else "-" * width
                            for column, width in enumerate(widths)))


def main():
    parser = argparse.ArgumentParser(description="Join and print the results of one benchmark.")
    parser.add_argument("name")
    parser.add_argument("--ours", type=pathlib.Path)
    parser.add_argument("--peers", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, help="file for the results (default: none)")
    parser.add_argument("--not-run", action="append", default=[], help="measurement that was not run, with the reason")
    arguments = parser.parse_args()

    ours = read_json(arguments.ours)
    peers = read_lines(arguments.peers)
    rows = join(ours, peers)
    not_run = [f"{line['peer']}: {line['not_run']}" for line in peers if "not_run" in line] + arguments.not_run

    show(rows)
    if not_run:
        print()
    for text in not_run:
        print(f"NOT RUN: {text}")
    if arguments.out is None:
        return

    results = {
        "name": arguments.name,
        "machine": {"cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"},
        "rows": [{key: row.get(key) for key in ROW} for row in rows],
        "counts": ours.get("counts", {}),
        "peers": peers,
        "not_run": not_run,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
