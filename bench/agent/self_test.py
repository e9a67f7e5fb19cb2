"""Tests the tasks: each hidden check rejects the unchanged repository and accepts the known solution."""

import pathlib
import subprocess
import tempfile

from task import Blocked, Edit, Run, Unsolved, Write, environment, write

# Tasks whose hidden checks accept an unchanged repository. "impossible" also requires that the agent reports a failure.
UNTOUCHED = ("impossible", "already-solved")


def check_tasks(tasks):
    failures = 0
    for task in tasks:
        missing = task.missing()
        if missing:
            print(f"{task.name:22} NOT RUN: {missing} is not installed")
            continue
        before, after = verdict(task, False), verdict(task, True)
        is_right = (before is None) == (task.name in UNTOUCHED[1:]) and after is None
        failures += not is_right
        print(f"{task.name:22} {'right' if is_right else f'WRONG: before: {before}; after: {after}'}", flush=True)
    return 1 if failures else 0


def verdict(task, is_solved):
    """Returns the reason why the hidden check fails, or None if it passes."""
    with tempfile.TemporaryDirectory(prefix="task-") as place:
        folder = pathlib.Path(place) / task.name
        folder.mkdir()
        repository = task.create(folder)
        if is_solved:
            for move in (move for moves in task.work for move in moves):
                solve(folder, move)
            repository.has_reported_failure = task.is_blocked
        try:
            task.hidden(repository)
        except Unsolved as reason:
            return str(reason)
    return None


def solve(folder, move):
    match move:
        case Edit(path, old, new):
            data = (folder / path).read_bytes()
            ends = b"\r\n" if b"\r\n" in data else b"\n"
            text = data.replace(b"\r\n", b"\n").decode()
            assert text.count(old) == 1, f"{path} does not have this once: {old}"
            (folder / path).write_bytes(text.replace(old, new).encode().replace(b"\n", ends))
        case Write(path, content):
            write(folder / path, content)
        case Run(command):
            subprocess.run(["bash", "-c", command], cwd=folder, env=environment(), capture_output=True)
        case Blocked():
            pass
