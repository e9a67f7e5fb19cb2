"""Writes the tables of docs/explanation/agent-benchmark.md from bench/results."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/explanation/agent-benchmark.md"


def write():
    text = PAGE.read_text()
    results = read("agent.json", {})
    text = fill(text, "hand", by_hand(read("agent-by-hand.json", [])))
    text = fill(text, "tasks", tasks(results.get("tasks", []), read("agent-before.json", {}).get("tasks", [])))
    text = fill(text, "peers", peers(results.get("peers", [])))
    PAGE.write_text(text)


def read(name, default):
    path = ROOT / "bench/results" / name
    return json.loads(path.read_text()) if path.is_file() else default


def fill(text, name, table):
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    head, rest = text.split(begin)
    return head + begin + table + end + rest.split(end, 1)[1]


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def figures(row):
    return [row["outcome"], row["calls"], f"{row['tokens']:,}", f"{row['definitions_share']:.0%}", f"{row['repeated_bytes']:,}",
            row["conversations"], f"{row['stable_prefix']:.0%}", row["questions"], f"{row['seconds_without_model']:.1f}"]


COLUMNS = ["outcome", "calls", "tokens sent", "definitions", "repeated bytes", "conversations", "same prefix", "questions", "seconds"]


def by_hand(rows):
    order = {name: index for index, name in enumerate(dict.fromkeys(row["task"] for row in rows))}
    rows = sorted(rows, key=lambda row: (order[row["task"]], row["label"] != "before", row["label"]))
    return table(["task", "state", *COLUMNS], [[row["task"], row["label"], *figures(row)] for row in rows])


def tasks(rows, before):
    """The last columns show the same task with the previous version."""
    known = {row["task"]: row for row in before}

    def previous(row):
        old = known.get(row["task"])
        return [old["outcome"], f"{old['tokens']:,}", f"{old['definitions_share']:.0%}"] if old else ["", "", ""]

    head = ["task", *COLUMNS, "outcome before", "tokens before", "definitions before"]
    return table(head, [[row["task"], *figures(row), *previous(row)] for row in rows])


def peers(rows):
    head = ["task", "program", "outcome", "calls", "tokens sent", "first request", "definitions", "seconds", "peak MiB"]
    return table(head, [
        [row["task"], f"{row['program']} {row.get('version', '')}".strip(), row["outcome"], row["calls"], f"{row['tokens']:,}",
         f"{row['first_request']:,}", f"{row['definitions_share']:.0%}", f"{row['seconds_without_model']:.1f}",
         f"{row['peak_mib']:.0f}"] for row in rows
    ])
