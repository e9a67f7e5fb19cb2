"""Measures the agent and its peers with twenty tasks that have hidden checks. A script or the user acts as the model.

Usage: python3 bench/agent --agents PROGRAM [OPTIONS]      (bench/run agent builds the program and installs the peers)
"""

import argparse
import fcntl
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

import page  # noqa: E402
import programs  # noqa: E402
from endpoint import by_hand  # noqa: E402
from self_test import check_tasks  # noqa: E402
from task import Repository, Task  # noqa: E402
from tasks import TASKS  # noqa: E402

# Tasks of --smoke: fast, one per kind of outcome.
SMOKE = ("one-file", "crlf", "uncommitted", "already-solved", "impossible", "folder-rules")

# Tasks that the peers run too.
NEXT_TO_PEERS = ("one-file", "large", "seven-files")


def main():
    arguments = parse()
    if arguments.list:
        for task in TASKS:
            print(f"{task.name:22} {task.title}")
        return 0
    if arguments.self_test:
        return check_tasks(TASKS)
    if arguments.page:
        page.write()
        return 0
    if not arguments.agents:
        sys.exit("bench: --agents PROGRAM is needed")
    ours = programs.ours(str(arguments.agents.resolve()))
    if arguments.hand:
        return play(ours, arguments)
    names = arguments.task or (SMOKE if arguments.smoke else [task.name for task in TASKS])
    results = {"name": "agent", "machine": machine(), "version": version(arguments.agents), "tasks": [], "peers": [], "not_run": []}
    for name in names:
        measure(ours, find(name), results["tasks"], results["not_run"])
    if not (arguments.smoke or arguments.task):
        compare(ours, arguments, results)
    unsolved = [row["task"] for row in results["tasks"] if row["outcome"] != "solved"]
    for text in results["not_run"]:
        print(f"NOT RUN: {text}")
    print(f"{len(results['tasks']) - len(unsolved)} of {len(results['tasks'])} tasks solved")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if unsolved else 0


def parse():
    parser = argparse.ArgumentParser(prog="bench/run agent", description="Measure the agent with a suite of tasks.")
    parser.add_argument("--agents", type=pathlib.Path, help="the agents binary")
    parser.add_argument("--json", type=pathlib.Path, help="file for the results")
    parser.add_argument("--list", action="store_true", help="list the tasks")
    parser.add_argument("--self-test", action="store_true", help="run each hidden check before and after the known solution")
    parser.add_argument("--smoke", action="store_true", help="run six tasks with the scripted model, without peers")
    parser.add_argument("--task", action="append", help="task to run; may be repeated")
    parser.add_argument("--page", action="store_true", help="write docs/explanation/agent-benchmark.md from the results")
    hand = parser.add_argument_group("by hand")
    hand.add_argument("--hand", action="store_true", help="answer the requests of one task by hand")
    hand.add_argument("--folder", type=pathlib.Path, help="folder for requests and answers")
    hand.add_argument("--label", default="", help="label in bench/results/agent-by-hand.json; without it nothing is stored")
    hand.add_argument("--repository", type=pathlib.Path, help="git repository to work on in place of a task; it is copied")
    hand.add_argument("--request", help="task for --repository")
    hand.add_argument("--check", default="", help="check for --repository")
    hand.add_argument("--hidden", help="hidden check for --repository: a command that is run in the result")
    for name in ("codex", "aider", "opencode"):
        parser.add_argument(f"--{name}", type=pathlib.Path, help=f"the {name} binary")
    return parser.parse_args()


def find(name):
    found = next((task for task in TASKS if task.name == name), None)
    if found is None:
        sys.exit(f"bench: no task {name} (see --list)")
    return found


def measure(program, task, rows, not_run):
    missing = task.missing()
    if missing:
        not_run.append(f"{task.name}: {missing} is not installed")
        return
    figures, output, endpoint = programs.attempt(program, task)
    rows.append(figures)
    show(figures)
    if figures["outcome"] != "solved":
        print(f"  {figures['reason']}\n  refused: {endpoint.refused[:3]}\n{output[-3000:]}", file=sys.stderr)


def show(row):
    print(
        f"{row['task']:22} {row['program']:9} {row['outcome']:9} calls {row['calls']:3} tokens {row['tokens']:7,} "
        f"definitions {row['definitions_share']:4.0%} repeated {row['repeated_bytes']:5,} B prefix {row['stable_prefix']:4.0%} "
        f"questions {row['questions']} {row['seconds_without_model']:6.2f} s {row['peak_mib']:6.1f} MiB",
        flush=True,
    )


def compare(ours, arguments, results):
    """Runs the tasks of NEXT_TO_PEERS with our program and each peer, one after another."""
    peers = [getattr(programs, name)(str(getattr(arguments, name).resolve())) for name in ("codex", "aider", "opencode")
             if getattr(arguments, name)]
    for name in ("codex", "aider", "opencode"):
        if not getattr(arguments, name):
            results["not_run"].append(f"{name}: it is not installed")
    for name in NEXT_TO_PEERS if peers else ():
        for program in (ours, *peers):
            measure(program, find(name), results["peers"], results["not_run"])
            if results["peers"]:
                results["peers"][-1]["version"] = version(program.path)


def play(ours, arguments):
    """Runs one task with answers written by the user."""
    if arguments.repository:
        task = given(arguments)
    elif len(arguments.task or []) == 1:
        task = find(arguments.task[0])
    else:
        sys.exit("bench: --hand needs one --task or a --repository")
    folder = arguments.folder or pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target")) / f"bench/hand/{task.name}"
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"Requests appear in {folder}/NNN.request.txt; write each answer to {folder}/NNN.response.json:\n"
          '{"content": "...", "tool_calls": [{"name": "...", "arguments": {...}}]}', flush=True)
    figures, output, _ = programs.attempt(ours, task, by_hand(folder), folder, seconds=4 * 3600)
    print(output[-6000:])
    show(figures)
    if figures["reason"]:
        print(figures["reason"])
    if arguments.label:
        store(arguments.label, figures)
    return 0


def store(label, figures):
    """Stores the figures of a task answered by hand. The lock permits concurrent runs."""
    path = page.ROOT / "bench/results/agent-by-hand.json"
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        rows = json.loads(file.read() or "[]")
        rows = [row for row in rows if (row["label"], row["task"]) != (label, figures["task"])]
        rows.append({"label": label, **figures})
        file.truncate(0)
        file.write(json.dumps(rows, indent=1) + "\n")


def given(arguments):
    """Creates a task from an existing repository, which is copied."""
    class Given(Task):
        def create(self, folder):
            subprocess.run(["cp", "-a", f"{arguments.repository}/.", str(folder)], check=True)
            return Repository(folder)

    def hidden(repository):
        if arguments.hidden:
            repository.succeeds(arguments.hidden)

    name = arguments.repository.resolve().name
    return Given(name=name, title=name, request=arguments.request, files={}, hidden=hidden, check=arguments.check)


def machine():
    return {"cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"}


def version(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    found = re.search(r"\d+\.\d+\.\d+\S*", done.stdout)
    return found.group() if found else ""


sys.exit(main())
