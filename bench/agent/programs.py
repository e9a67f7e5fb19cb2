"""Runs one task with one program: ours, codex, aider or opencode."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

import counters
import script
from endpoint import MODEL, Endpoint
from task import Unsolved

# Time limit of a scripted task, in seconds.
LONGEST = 300


@dataclass
class Program:
    """A program under test: its command line, and a scripted model that uses its tools."""

    name: str
    path: str
    command: object
    model: object
    variables: object = lambda home, url: {}
    prepare: object = lambda home, url: None
    failed: object = lambda code, output: code != 0
    version: str = ""
    extra: dict = field(default_factory=dict)


def ours(path):
    def command(program, task, folder, home):
        return [program.path, "--format", "json", "do", task.request, "--check", task.check, "--yes"]

    def variables(home, url):
        return {"CLEVERAGENTS_HOME": str(home / "agents"), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "key-of-the-bench",
                "CLEVERAGENTS_MODEL": f"openai/{MODEL}"}

    def prepare(home, url):
        run([path, "config", "set", "model.default", f"openai/{MODEL}"], home, home, variables(home, url))

    return Program("ours", path, command, script.Ours, variables, prepare)


def codex(path):
    def command(program, task, folder, home):
        provider = (
            f'model_providers.bench={{name="bench",base_url="{program.extra["url"]}",wire_api="responses",'
            "requires_openai_auth=false}"
        )
        options = ['model_provider="bench"', provider, "analytics.enabled=false", "check_for_update_on_startup=false"]
        settings = [part for option in options for part in ("-c", option)]
        return [path, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *settings,
                "--disable", "plugins", "--disable", "apps", "--model", "gpt-5.5", prompt(task)]

    def variables(home, url):
        return {"CODEX_HOME": str(home)}

    return Program("codex", path, command, script.Codex, variables)


def aider(path):
    def command(program, task, folder, home):
        edited = {move.path for moves in task.work for move in moves if hasattr(move, "path")}
        files = [name for name in sorted(edited) if (folder / name).exists()]
        return [path, "--model", "openai/gpt-4.1", "--edit-format", "diff", "--yes-always", "--no-auto-commits",
                "--no-gitignore", "--no-check-update", "--no-analytics", "--no-show-model-warnings", "--no-stream",
                "--no-pretty", "--no-suggest-shell-commands", "--auto-test", "--test-cmd", task.check,
                "--message", prompt(task), *files]

    def variables(home, url):
        return {"OPENAI_API_BASE": url, "OPENAI_API_KEY": "key-of-the-bench", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

    return Program("aider", path, command, script.Aider, variables)


def opencode(path):
    def command(program, task, folder, home):
        return [path, "run", "--model", "bench/any", prompt(task)]

    def prepare(home, url):
        options = {"baseURL": url, "apiKey": "key-of-the-bench"}
        # For an unknown model name, opencode uses its general instructions and its tool for exact edits.
        models = {"any": {"name": "any", "tool_call": True, "limit": {"context": 272000, "output": 32000}}}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "bench", "options": options, "models": models}
        document = {"provider": {"bench": provider}, "permission": "allow", "autoupdate": False, "share": "disabled"}
        (home / "opencode.json").write_text(json.dumps(document))

    def variables(home, url):
        return {"OPENCODE_CONFIG": str(home / "opencode.json"), "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    return Program("opencode", path, command, script.OpenCode, variables, prepare)


def prompt(task):
    """The request including its check, for programs without an option for a check."""
    return f"{task.request}\n\nThis command must succeed at the end: {task.check}" if task.check else task.request


def environment(home, own):
    """Variables of a clean environment, with the folders of the user's toolchains."""
    kept = ("PATH", "LANG", "RUSTUP_HOME", "CARGO_HOME", "PYENV_ROOT", "PYENV_VERSION")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    for name, place in (("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")):
        folder = pathlib.Path.home() / place
        if folder.is_dir():
            found.setdefault(name, str(folder))
    return {**found, "HOME": str(home), "TMPDIR": str(home / "tmp"), "NO_COLOR": "1", **own}


def run(command, folder, home, own, seconds=LONGEST):
    """Runs a program. Returns exit code, output, seconds, and peak memory of its largest process in MiB."""
    (home / "tmp").mkdir(exist_ok=True)
    with tempfile.TemporaryFile() as output:
        begun = time.monotonic()
        process = subprocess.Popen(
            command, cwd=folder, env=environment(home, own), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )
        code, usage = wait(process, begun + seconds)
        took = time.monotonic() - begun
        output.seek(0)
        return code, output.read().decode(errors="replace"), took, usage.ru_maxrss / 1024 if usage else 0.0


def wait(process, end):
    while True:
        found, status, usage = os.wait4(process.pid, os.WNOHANG)
        if found:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage
        if time.monotonic() > end:
            os.killpg(process.pid, 9)
            os.wait4(process.pid, 0)
            process.returncode = -9
            return "timeout", None
        time.sleep(0.005)


def attempt(program, task, answer=None, record=None, seconds=LONGEST, keep=None):
    """Runs a task. Returns figures, output and endpoint. Without `answer`, the scripted model answers."""
    with tempfile.TemporaryDirectory(prefix="task-") as place:
        place = pathlib.Path(keep or place)
        folder, home = place / task.name, place / "home"
        folder.mkdir(parents=True, exist_ok=True)
        home.mkdir(exist_ok=True)
        repository = task.create(folder)
        endpoint = Endpoint(answer or program.model(task), record)
        program.extra["url"] = endpoint.url
        try:
            own = program.variables(home, endpoint.url)
            program.prepare(home, endpoint.url)
            command = program.command(program, task, folder, home)
            code, output, took, peak = run(command, folder, home, own, seconds)
        finally:
            endpoint.close()
        repository.exit_code = code
        repository.has_reported_failure = program.failed(code, output)
        figures = {
            "task": task.name,
            "program": program.name,
            **outcome(task, repository),
            **counters.count(endpoint.requests),
            "seconds_without_model": round(took - endpoint.thinking, 2),
            "peak_mib": round(peak, 1),
            "exit_code": code,
            "refused_requests": len(endpoint.refused),
        }
        if record:
            (pathlib.Path(record) / "output.txt").write_text(output)
        return figures, output, endpoint


def outcome(task, repository):
    """Runs the hidden check and returns its result."""
    try:
        task.hidden(repository)
    except Unsolved as reason:
        return {"outcome": "unsolved", "reason": str(reason)[:400]}
    return {"outcome": "solved", "reason": ""}
