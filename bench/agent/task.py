"""Tasks of the suite: a generated repository, a request, a visible check, and a hidden check that decides the outcome."""

import hashlib
import os
import pathlib
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Callable


@dataclass(frozen=True)
class Read:
    """Reads a file."""

    path: str


@dataclass(frozen=True)
class Search:
    """Searches file contents for a plain text."""

    text: str


@dataclass(frozen=True)
class Run:
    """Runs a command."""

    command: str


@dataclass(frozen=True)
class Edit:
    """Replaces a text that occurs once in a file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Write:
    """Creates a file or replaces its content."""

    path: str
    content: str


@dataclass(frozen=True)
class Blocked:
    """Reports that the task cannot be done."""

    reason: str


class Unsolved(Exception):
    """The hidden check failed; the message contains the reason."""


@dataclass(frozen=True)
class Task:
    """One task. `look` and `work` are the moves of the scripted model, one list per answer."""

    name: str
    title: str
    request: str
    files: dict
    hidden: Callable
    check: str = ""
    needs: tuple = ("python3",)
    # Called with the folder after the first commit, to create uncommitted edits or ignored files.
    arrange: Callable = None
    look: list = field(default_factory=list)
    work: list = field(default_factory=list)

    @property
    def is_blocked(self):
        return any(isinstance(move, Blocked) for moves in self.work for move in moves)

    def missing(self):
        """The first required program that is not installed, or None."""
        return next((name for name in self.needs if shutil.which(name) is None), None)

    def create(self, folder):
        """Creates the repository with one commit."""
        folder = pathlib.Path(folder)
        for path, content in self.files.items():
            write(folder / path, content)
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "First version")
        if self.arrange:
            self.arrange(folder)
        return Repository(folder)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if path.suffix == ".sh":
        path.chmod(0o755)


def git(folder, *arguments):
    names = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *names, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def environment():
    """Environment variables of checks, without CARGO_TARGET_DIR, which would move build results."""
    found = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    return {**found, "PYTHONDONTWRITEBYTECODE": "1"}


class Repository:
    """A generated repository before and after an agent worked on it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.before = self.digests()
        # Set by the runner after the agent has ended.
        self.exit_code = None
        self.has_reported_failure = False

    def digests(self):
        """Digest of each file, without git's files, aider's notes, and the results of builds and tests."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            parts = path.relative_to(self.folder).parts
            is_note = parts[0].startswith(".aider")
            if path.is_file() and not is_note and not {".git", "__pycache__", "target", "build"} & set(parts):
                found["/".join(parts)] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def changed(self):
        after = self.digests()
        return sorted(path for path in self.before | after if self.before.get(path) != after.get(path))

    def text(self, path):
        found = self.folder / path
        require(found.is_file(), f"{path} does not exist")
        return found.read_bytes().decode()

    def unchanged(self, *paths):
        for path in paths:
            require(path not in self.changed(), f"{path} was changed")

    def only(self, *paths):
        others = [path for path in self.changed() if path not in paths]
        require(not others, f"other files were changed: {', '.join(others)}")

    def succeeds(self, command, **variables):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**environment(), **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )
        output = (done.stdout + done.stderr)[-600:]
        require(done.returncode == 0, f"`{command}` failed with exit code {done.returncode}: {output}")
        return done.stdout

    def python(self, program, **variables):
        """Runs a Python program, unknown to the agent, in the repository."""
        script = self.folder.parent / "hidden.py"
        script.write_text(program)
        return self.succeeds(f"PYTHONPATH=. python3 {script}", **variables)


def require(condition, reason):
    if not condition:
        raise Unsolved(reason)
