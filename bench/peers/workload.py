"""The workload of every peer: W concurrent writers append messages to one session.

A peer script defines its configurations. This module runs the writers, reads the session back through the
peer's library, counts stored, lost and duplicated messages, and prints one JSON line per measurement.

Fields of the lines:
  messages    appends attempted
  refused     appends that raised an exception to the caller
  stored      distinct messages found in the session afterwards
  lost        appends that returned without an exception but whose message is not in the session
  duplicated  additional copies of messages
  per_second  accepted appends (attempted minus refused) per second, including lost ones
"""

import argparse
import asyncio
import importlib.metadata
import json
import logging
import os
import pathlib
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field

# Size of the messages, the same as in our benchmark.
CONTENT_BYTES = 64
ROUNDS = 3
SECONDS_PER_ROUND = 6.0


def content(writer: int, number: int) -> str:
    """A message that is unique to this writer and number, of fixed size."""
    return f"writer {writer} message {number} ".ljust(CONTENT_BYTES, "x")


@dataclass
class Load:
    """Number of writers, total number of messages, and time limit in seconds."""

    writers: int
    messages: int
    seconds: float = SECONDS_PER_ROUND

    @property
    def per_writer(self) -> int:
        return max(1, self.messages // self.writers)


@dataclass
class Outcome:
    """Accepted and refused appends, and the duration in seconds."""

    accepted: list = field(default_factory=list)
    refused: Counter = field(default_factory=Counter)
    seconds: float = 0.0


async def with_tasks(load: Load, append) -> Outcome:
    """Calls `await append(writer, text)` from one asyncio task per writer."""
    outcome = Outcome()
    begun = time.perf_counter()

    async def writer(index: int) -> None:
        for number in range(load.per_writer):
            if time.perf_counter() - begun > load.seconds:
                return
            text = content(index, number)
            try:
                await append(index, text)
            except Exception as error:  # noqa: BLE001 - whatever the library raises is a refusal
                outcome.refused[type(error).__name__] += 1
            else:
                outcome.accepted.append(text)

    await asyncio.gather(*(writer(index) for index in range(load.writers)))
    outcome.seconds = time.perf_counter() - begun
    return outcome


def with_threads(load: Load, append) -> Outcome:
    """Calls `append(writer, text)` from one thread per writer, all released at the same instant."""
    outcome = Outcome()
    guard = threading.Lock()
    gate = threading.Barrier(load.writers + 1)
    begun = 0.0

    def writer(index: int) -> None:
        accepted, refused = [], Counter()
        gate.wait()
        for number in range(load.per_writer):
            if time.perf_counter() - begun > load.seconds:
                break
            text = content(index, number)
            try:
                append(index, text)
            except Exception as error:  # noqa: BLE001 - whatever the library raises is a refusal
                refused[type(error).__name__] += 1
            else:
                accepted.append(text)
        with guard:
            outcome.accepted.extend(accepted)
            outcome.refused.update(refused)

    threads = [threading.Thread(target=writer, args=(index,)) for index in range(load.writers)]
    for thread in threads:
        thread.start()
    begun = time.perf_counter()
    gate.wait()
    for thread in threads:
        thread.join()
    outcome.seconds = time.perf_counter() - begun
    return outcome


def durability(journal_mode: str, synchronous: int) -> str:
    """Describes the durability that the pragmas of the peer's connection report."""
    level = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}.get(synchronous, str(synchronous))
    return f"journal_mode={journal_mode} synchronous={level}"


@dataclass
class Configuration:
    """One realistic way to use a peer. `run(path, load)` is a coroutine function that returns
    (outcome, contents read back, durability text)."""

    name: str
    run: object
    messages: int
    note: str


def measure(configuration: Configuration, writers: int, version: str) -> dict:
    """Returns the fastest of `ROUNDS` rounds, each on a new database file."""
    best = None
    for _ in range(ROUNDS):
        load = Load(writers, configuration.messages)
        with tempfile.TemporaryDirectory(prefix="peer-") as folder:
            path = str(pathlib.Path(folder) / "peer.db")
            outcome, contents, how = asyncio.run(configuration.run(path, load))
        found = Counter(contents)
        refused = sum(outcome.refused.values())
        rate = len(outcome.accepted) / outcome.seconds
        reasons = ", ".join(f"{count} {name}" for name, count in sorted(outcome.refused.items()))
        line = {
            "peer": configuration.name,
            "version": version,
            "writers": writers,
            "messages": len(outcome.accepted) + refused,
            "stored": len(found),
            "lost": sum(1 for text in outcome.accepted if text not in found),
            "duplicated": sum(found.values()) - len(found),
            "refused": refused,
            "seconds": round(outcome.seconds, 3),
            "per_second": round(rate, 1),
            "note": "; ".join(part for part in (configuration.note, how, reasons) if part),
        }
        if best is None or line["per_second"] > best["per_second"]:
            best = line
    return best


def main(package: str, load_configurations, *also: str) -> None:
    """Measures each configuration with each number of writers. For a missing peer, prints a line with the
    reason and succeeds. `also` lists packages whose versions are appended to the peer's."""
    parser = argparse.ArgumentParser(description=f"Measure {package} on the shared workload.")
    parser.add_argument("--writers", default="1,16,256", help="comma separated (default: %(default)s)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    try:
        version = importlib.metadata.version(package)
        for name in also:
            version += f"+{importlib.metadata.version(name)}"
        configurations = load_configurations()
    except (ImportError, importlib.metadata.PackageNotFoundError) as error:
        print(json.dumps({"peer": package, "not_run": f"not installed: {error}"}), flush=True)
        return
    for configuration in configurations:
        for writers in (int(part) for part in arguments.writers.split(",")):
            print(f"  {configuration.name}, {writers} writers", file=sys.stderr, flush=True)
            try:
                line = measure(configuration, writers, version)
            except Exception as error:  # noqa: BLE001 - one broken configuration must not hide the others
                line = {"peer": configuration.name, "not_run": f"{writers} writers: {error!r}"}
            print(json.dumps(line), flush=True)
    # Worker threads that some libraries leave behind must not block the exit.
    sys.stdout.flush()
    os._exit(0)
