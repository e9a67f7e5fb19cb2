"""Tasks in repositories in unusual states: CRLF, uncommitted edits, ignored dependencies, work that is already done."""

import pathlib

from task import Edit, Read, Run, Task, git, require, write

TEST = "python3 -m unittest -q"

INVOICE = '''"""Invoices."""


def due(total, paid):
    """Return the amount still due, never less than 0."""
    return total - paid


def line(number, total, paid):
    """Return the line of an invoice."""
    return f"{number}: {due(total, paid)} due"
'''

INVOICE_TEST = '''import unittest

from invoice import due, line


class InvoiceTest(unittest.TestCase):
    def test_due(self):
        self.assertEqual(due(10, 4), 6)
        self.assertEqual(due(10, 14), 0)

    def test_line(self):
        self.assertEqual(line("A7", 10, 14), "A7: 0 due")


if __name__ == "__main__":
    unittest.main()
'''


def crlf_hidden(repository):
    repository.only("invoice.py")
    data = (repository.folder / "invoice.py").read_bytes()
    require(data.count(b"\n") == data.count(b"\r\n"), "invoice.py has lines that do not end in CRLF")
    require(b"\r\r" not in data, "invoice.py has doubled carriage returns")
    difference = git(repository.folder, "diff", "--numstat", "HEAD~1" if agent_committed(repository) else "HEAD")
    added = sum(int(line.split("\t")[0]) for line in difference.splitlines())
    require(added <= 3, f"the fix needs one line, but {added} lines were changed")
    repository.succeeds(TEST)


def agent_committed(repository):
    """Whether the agent committed its result."""
    return git(repository.folder, "rev-list", "--count", "HEAD").strip() != "1"


CRLF = Task(
    name="crlf",
    title="file with CRLF line endings",
    request="`due` must never return less than 0.",
    check=TEST,
    files={
        "invoice.py": INVOICE.replace("\n", "\r\n"),
        "test_invoice.py": INVOICE_TEST.replace("\n", "\r\n"),
        ".gitattributes": "* -text\n",
    },
    hidden=crlf_hidden,
    look=[[Run(TEST), Read("invoice.py")]],
    work=[[Edit("invoice.py", "    return total - paid", "    return max(0, total - paid)"), Run(TEST)]],
)

NOTES = "# Notes\n\n- ask Ada about discounts\n"


def uncommitted_arrange(folder):
    """Adds uncommitted changes of the user: a renamed parameter and a file of notes."""
    source = pathlib.Path(folder) / "invoice.py"
    source.write_text(source.read_text().replace("def line(number, total", "def line(label, total").replace("{number}", "{label}"))
    write(pathlib.Path(folder) / "NOTES.md", NOTES)


def uncommitted_hidden(repository):
    repository.only("invoice.py")
    require(repository.text("NOTES.md") == NOTES, "the notes of the user are gone")
    text = repository.text("invoice.py")
    require("def line(label, total" in text and "{label}" in text, "the uncommitted edit of the user is gone")
    repository.succeeds(TEST)


UNCOMMITTED = Task(
    name="uncommitted",
    title="uncommitted edits of the user in the same file",
    request="`due` must never return less than 0.",
    check=TEST,
    files={"invoice.py": INVOICE, "test_invoice.py": INVOICE_TEST},
    arrange=uncommitted_arrange,
    hidden=uncommitted_hidden,
    look=[[Run(TEST), Read("invoice.py")]],
    work=[[Edit("invoice.py", "    return total - paid", "    return max(0, total - paid)"), Run(TEST)]],
)

SLUG = """'use strict';

const { fold } = require('letters');

// Turns a title into the part of a URL that identifies it.
function slug(title) {
  return fold(title).toLowerCase().replace(/[^a-z0-9]+/g, '-');
}

module.exports = { slug };
"""

SLUG_TEST = """'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { slug } = require('../slug');

test('titles', () => {
  assert.strictEqual(slug('Crème brûlée'), 'creme-brulee');
  assert.strictEqual(slug('  What now? '), 'what-now');
});
"""

LETTERS = "exports.fold = (text) => text.normalize('NFD').replace(/[\\u0300-\\u036f]/g, '');\n"


def ignored_arrange(folder):
    """Adds the result of `npm install`: an ignored folder that the tests need."""
    package = pathlib.Path(folder) / "node_modules/letters"
    write(package / "package.json", '{"name": "letters", "version": "1.2.0", "main": "index.js"}\n')
    write(package / "index.js", LETTERS)


def ignored_hidden(repository):
    repository.only("slug.js")
    repository.succeeds("npm test --silent")
    repository.succeeds("node -e \"process.exit(require('./slug').slug('--a--') === 'a' ? 0 : 1)\"")


IGNORED = Task(
    name="ignored-dependencies",
    title="tests that need a folder which git ignores",
    request="A slug must not begin or end with a dash. Its test fails.",
    check="npm test --silent",
    needs=("node", "npm"),
    files={
        "package.json": '{\n  "name": "slug",\n  "version": "1.0.0",\n  "scripts": {"test": "node --test test/"},\n'
        '  "dependencies": {"letters": "1.2.0"}\n}\n',
        ".gitignore": "node_modules/\n",
        "slug.js": SLUG,
        "test/slug.test.js": SLUG_TEST,
    },
    arrange=ignored_arrange,
    hidden=ignored_hidden,
    look=[[Run("npm test --silent"), Read("slug.js")]],
    work=[
        [
            Edit("slug.js", ".replace(/[^a-z0-9]+/g, '-');", ".replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '');"),
            Run("npm test --silent"),
        ]
    ],
)


def solved_hidden(repository):
    require(not repository.changed(), f"files were changed: {', '.join(repository.changed())}")


SOLVED = Task(
    name="already-solved",
    title="task that is already solved",
    request="`due` returns a negative number when more was paid than the total. It must return 0 then.",
    check=TEST,
    files={
        "invoice.py": INVOICE.replace("return total - paid", "return max(0, total - paid)"),
        "test_invoice.py": INVOICE_TEST,
    },
    hidden=solved_hidden,
    look=[[Run(TEST), Read("invoice.py")]],
    work=[[Run(TEST)]],
)

TASKS = [CRLF, UNCOMMITTED, IGNORED, SOLVED]
