"""Scripted models: they perform the moves of a task with the tools of each program."""

import json
import shlex

from endpoint import tools
from task import Blocked, Edit, Read, Run, Search, Write


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


class Ours:
    """Reads files while strategizing, submits a strategy of one step, executes the step, and approves reviews."""

    def __init__(self, task):
        self.task = task
        self.answers = self.script()

    def __call__(self, body):
        offered = {name for name, _, _ in tools(body)}
        if "submit_review" in offered:
            return {"tool_calls": [call("submit_review", criteria=review(body), defects=[])]}
        return next(self.answers, {"content": "There is nothing more to do."})

    def script(self):
        for moves in self.task.look:
            yield {"tool_calls": [ours(move) for move in moves]}
        step = {"title": self.task.title[:60], "description": "As the summary says. Check: " + self.task.check, "files": []}
        yield {"tool_calls": [call("submit_strategy", summary="The cause is found.", risk=0.1, decisions=[], steps=[step])]}
        for index, moves in enumerate(self.task.work):
            calls = [ours(move) for move in moves]
            if index == len(self.task.work) - 1 and not self.task.is_blocked:
                calls.append(call("step_done", summary="Done; the check passes.", checks_run=[]))
            yield {"tool_calls": calls}


def ours(move):
    match move:
        case Read(path):
            return call("read_file", path=path)
        case Search(text):
            return call("search", pattern=text, literal=True)
        case Run(command):
            return call("shell", command=command)
        case Edit(path, old, new):
            return call("edit_file", path=path, old_string=old, new_string=new)
        case Write(path, content):
            return call("write_file", path=path, content=content)
        case Blocked(reason):
            return call("step_blocked", reason=reason)


def review(body):
    """Returns an approval for each numbered criterion in the request."""
    text = json.dumps(body)
    numbers = [number for number in range(1, 20) if f"\\n{number}. " in text or f'"{number}. ' in text]
    return [{"number": number, "met": True, "evidence": "the check passed"} for number in numbers or [1]]


class Shell:
    """A scripted model for programs whose only tool runs commands. It edits files with small Python programs."""

    def __init__(self, task, name, argument, **others):
        self.name, self.argument, self.others = name, argument, others
        self.answers = self.script(task)

    def __call__(self, body):
        if self.name not in {name for name, _, _ in tools(body)}:
            return {"content": "A title"}
        return next(self.answers, {"content": "There is nothing more to do."})

    def script(self, task):
        for moves in [*task.look, *task.work]:
            blocked = [move for move in moves if isinstance(move, Blocked)]
            if blocked:
                yield {"content": blocked[0].reason}
                continue
            yield {"tool_calls": [self.call(command(move)) for move in moves]}
        yield {"content": "Done; the check passes."}

    def call(self, text):
        return {"name": self.name, "arguments": {self.argument: text, **self.others}}


def command(move):
    match move:
        case Read(path):
            return f"cat {shlex.quote(path)}"
        case Search(text):
            return f"grep -rnF -- {shlex.quote(text)} ."
        case Run(text):
            return text
        case Write(path, content):
            return f"cat > {shlex.quote(path)} <<'EOF'\n{content}EOF"
        case Edit(path, old, new):
            return f"python3 - {shlex.quote(path)} <<'EOF'\n" + EDIT.format(old=old, new=new) + "EOF"


EDIT = """import sys
path = sys.argv[1]
text = open(path, newline="").read()
old, new = {old!r}, {new!r}
if "\\r\\n" in text:
    old, new = old.replace("\\n", "\\r\\n"), new.replace("\\n", "\\r\\n")
assert text.count(old) == 1
open(path, "w", newline="").write(text.replace(old, new))
"""


class Codex(Shell):
    """A scripted model for codex: reads and tests with the shell, edits with the patch tool."""

    def __init__(self, task):
        self.tree = Tree(task)
        super().__init__(task, "exec_command", "cmd", login=False)

    def script(self, task):
        for moves in [*task.look, *task.work]:
            calls = []
            for move in moves:
                if isinstance(move, Blocked):
                    yield {"content": move.reason}
                elif isinstance(move, (Edit, Write)):
                    path, old, new = self.tree.apply(move)
                    calls.append({"name": "apply_patch", "raw": patch(path, old, new)})
                else:
                    calls.append(self.call(command(move)))
            if calls:
                yield {"tool_calls": calls}
        yield {"content": "Done; the check passes."}


def patch(path, old, new):
    """A patch of whole lines in codex's format."""
    lines = [f"-{line}" for line in old.splitlines()] + [f"+{line}" for line in new.splitlines()]
    head = f"*** Update File: {path}\n@@" if old else f"*** Add File: {path}"
    return "\n".join(["*** Begin Patch", head, *lines, "*** End Patch"])


class Tree:
    """The current contents of a task's files, for programs that replace whole lines."""

    def __init__(self, task):
        self.files = {path: text for path, text in task.files.items() if isinstance(text, str)}

    def apply(self, move):
        """Applies an edit and returns it as (path, old lines, new lines)."""
        if isinstance(move, Write):
            self.files[move.path] = move.content
            return move.path, "", move.content
        text = self.files[move.path].replace("\r\n", "\n")
        first = text.index(move.old)
        start = text.rfind("\n", 0, first) + 1
        end = text.find("\n", first + len(move.old) - 1) + 1 or len(text)
        old = text[start:end]
        new = text[start:first] + move.new + text[first + len(move.old) : end]
        self.files[move.path] = text[:start] + new + text[end:]
        return move.path, old, new


class OpenCode:
    """A scripted model for opencode, whose tools are like ours."""

    def __init__(self, task):
        self.answers = self.script(task)

    def __call__(self, body):
        if "bash" not in {name for name, _, _ in tools(body)}:
            return {"content": "A title"}
        return next(self.answers, {"content": "There is nothing more to do."})

    def script(self, task):
        for moves in [*task.look, *task.work]:
            yield {"tool_calls": [self.call(move) for move in moves]}
        yield {"content": "Done; the check passes."}

    @staticmethod
    def call(move):
        match move:
            case Read(path):
                return call("read", filePath=path)
            case Search(text):
                return call("bash", command=command(move), description="Search")
            case Run(text):
                return call("bash", command=text, description="Run a command")
            case Edit(path, old, new):
                return call("edit", filePath=path, oldString=old, newString=new)
            case Write(path, content):
                return call("write", filePath=path, content=content)


class Aider:
    """A scripted model for aider, which has no tools: the prompt contains the files, the answer contains edit
    blocks, and aider runs the check itself."""

    def __init__(self, task):
        self.answers = self.script(task)

    def __call__(self, _body):
        return next(self.answers, {"content": "There is nothing more to do."})

    @staticmethod
    def script(task):
        tree = Tree(task)
        moves = [move for moves in task.work for move in moves if isinstance(move, (Edit, Write))]
        yield {"content": "I change this:\n\n" + "\n".join(block(*tree.apply(move)) for move in moves)}


def block(path, old, new):
    """An edit block in aider's format."""
    return f"{path}\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n"
