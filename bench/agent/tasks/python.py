"""Tasks in Python: a bug in one file, a misleading symptom, a large repository, a flaky check, a configuration file."""

from task import Edit, Read, Run, Search, Task, require

TEST = "python3 -m unittest -q"

RANGES = '''"""Page ranges such as `1-3,7`."""


def parse_ranges(text):
    """Return the pages of a text, in order and without duplicates. A range includes both ends."""
    pages = []
    for part in text.split(","):
        part = part.strip()
        if not part:
            continue
        first, dash, last = part.partition("-")
        if dash:
            pages.extend(range(int(first), int(last)))
        else:
            pages.append(int(first))
    return sorted(set(pages))


def format_ranges(pages):
    """Return the shortest text for pages: the inverse of `parse_ranges`."""
    parts, run = [], []
    for page in [*sorted(set(pages)), None]:
        if run and page != run[-1] + 1:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
        run.append(page)
    return ",".join(parts)
'''

RANGES_TEST = '''import unittest

from pages.ranges import format_ranges, parse_ranges


class RangesTest(unittest.TestCase):
    def test_single_pages(self):
        self.assertEqual(parse_ranges("4, 2,2"), [2, 4])

    def test_range_includes_both_ends(self):
        self.assertEqual(parse_ranges("1-3,7"), [1, 2, 3, 7])

    def test_format(self):
        self.assertEqual(format_ranges([1, 2, 3, 7]), "1-3,7")


if __name__ == "__main__":
    unittest.main()
'''


def ranges_hidden(repository):
    repository.unchanged("tests/test_ranges.py")
    repository.python(
        "from pages.ranges import parse_ranges, format_ranges\n"
        "assert parse_ranges('1-3,7') == [1, 2, 3, 7]\n"
        "assert parse_ranges('5-5') == [5]\n"
        "assert parse_ranges('') == []\n"
        "assert format_ranges(parse_ranges('1-4,9')) == '1-4,9'\n"
    )


ONE_FILE = Task(
    name="one-file",
    title="bug in one file with a failing test",
    request="A test of the page ranges fails. Find the cause and fix it.",
    check=TEST,
    files={
        "pages/__init__.py": "",
        "pages/ranges.py": RANGES,
        "tests/__init__.py": "",
        "tests/test_ranges.py": RANGES_TEST,
        "README.md": "# Pages\n\nReads and writes page ranges. Run the tests with `python3 -m unittest`.\n",
    },
    hidden=ranges_hidden,
    look=[[Run(TEST), Search("def parse_ranges")], [Read("pages/ranges.py")]],
    work=[
        [
            Edit("pages/ranges.py", "range(int(first), int(last))", "range(int(first), int(last) + 1)"),
            Run(TEST),
        ]
    ],
)

DEFAULTS = '''"""Defaults of reports."""


def defaults(overrides={}):
    """Return the settings of a report: the defaults with the overrides."""
    overrides.setdefault("currency", "EUR")
    overrides.setdefault("columns", ["name", "amount"])
    return overrides
'''

REPORT = '''"""Renders a report as text."""

from .defaults import defaults


def render(rows, settings=None):
    """Return one line for each row."""
    settings = settings if settings is not None else defaults()
    if any("tax" in row for row in rows):
        settings["columns"].append("tax")
    lines = []
    for row in rows:
        cells = [str(row[column]) for column in settings["columns"]]
        lines.append(" ".join(cells) + " " + settings["currency"])
    return "\\n".join(lines)
'''

REPORT_TEST = '''import unittest

from reports.report import render


class ReportTest(unittest.TestCase):
    def test_a_report_with_tax(self):
        self.assertEqual(render([{"name": "pen", "amount": 3, "tax": 1}]), "pen 3 1 EUR")

    def test_b_report_without_tax(self):
        self.assertEqual(render([{"name": "ink", "amount": 5}]), "ink 5 EUR")


if __name__ == "__main__":
    unittest.main()
'''


def misleading_hidden(repository):
    repository.unchanged("tests/test_report.py")
    repository.python(
        "from reports.defaults import defaults\n"
        "from reports.report import render\n"
        "for _ in range(3):\n"
        "    assert render([{'name': 'pen', 'amount': 3, 'tax': 1}]) == 'pen 3 1 EUR'\n"
        "    assert render([{'name': 'ink', 'amount': 5}]) == 'ink 5 EUR'\n"
        "given = {'currency': 'USD'}\n"
        "assert defaults(given)['currency'] == 'USD' and given == {'currency': 'USD'}, given\n"
        "mine = {'currency': 'USD', 'columns': ['name', 'amount']}\n"
        "render([{'name': 'pen', 'amount': 3, 'tax': 1}], mine)\n"
        "assert mine['columns'] == ['name', 'amount'], mine\n"
    )


MISLEADING = Task(
    name="misleading",
    title="misleading symptom: the failing line is not the cause",
    request="`render` raises KeyError: 'tax' for rows without tax, but only sometimes. The rows are correct. Fix the "
    "cause; `defaults` and `render` must not change what their caller passes.",
    check=TEST,
    files={
        "reports/__init__.py": "",
        "reports/defaults.py": DEFAULTS,
        "reports/report.py": REPORT,
        "tests/__init__.py": "",
        "tests/test_report.py": REPORT_TEST,
    },
    hidden=misleading_hidden,
    look=[[Run(TEST), Read("reports/report.py")], [Read("reports/defaults.py")]],
    work=[
        [
            Edit(
                "reports/defaults.py",
                "def defaults(overrides={}):",
                "def defaults(overrides=None):",
            ),
            Edit(
                "reports/defaults.py",
                '    overrides.setdefault("currency", "EUR")\n    overrides.setdefault("columns", ["name", "amount"])\n'
                "    return overrides\n",
                '    return {"currency": "EUR", "columns": ["name", "amount"], **(overrides or {})}\n',
            ),
            Edit(
                "reports/report.py",
                '        settings["columns"].append("tax")\n',
                '        settings = {**settings, "columns": [*settings["columns"], "tax"]}\n',
            ),
        ],
        [Run(TEST)],
    ],
)

REGIONS = 60
SHOPS = 50


def shop(region, number):
    rate = "0.19" if (region, number) != (41, 17) else "1.9"
    return (
        f'"""Shop {number} of region {region}."""\n\n'
        "from core.price import gross\n\n"
        f"NAME = \"shop-{region}-{number}\"\nRATE = {rate}\n\n\n"
        "def total(net):\n"
        '    """Return the gross price in cents."""\n'
        "    return gross(net, RATE)\n"
    )


def large_files():
    files = {
        "core/__init__.py": "",
        "core/price.py": '"""Prices in cents."""\n\n\ndef gross(net, rate):\n    return round(net * (1 + rate))\n',
        "tests/__init__.py": "",
        "tests/test_prices.py": LARGE_TEST,
        "regions/__init__.py": "",
    }
    for region in range(REGIONS):
        files[f"regions/r{region}/__init__.py"] = ""
        for number in range(SHOPS):
            files[f"regions/r{region}/shop_{number}.py"] = shop(region, number)
    return files


LARGE_TEST = '''import importlib
import unittest


class PricesTest(unittest.TestCase):
    def test_totals_of_all_shops_are_plausible(self):
        total = sum(
            importlib.import_module(f"regions.r{region}.shop_{number}").total(1000)
            for region in range(60)
            for number in range(50)
        )
        self.assertEqual(total, 1190 * 3000)


if __name__ == "__main__":
    unittest.main()
'''


def large_hidden(repository):
    repository.only("regions/r41/shop_17.py")
    repository.python("from regions.r41.shop_17 import total\nassert total(1000) == 1190\n")


LARGE = Task(
    name="large",
    title="one wrong value in a repository of 3,000 files",
    request="The sum of all shops is wrong: one shop has a wrong tax rate. Find it and correct it.",
    check=TEST,
    files=large_files(),
    hidden=large_hidden,
    look=[
        [Run(TEST), Run("grep -rhoE '^RATE = .*' regions | sort | uniq -c")],
        [Search("RATE = 1.9")],
    ],
    work=[[Edit("regions/r41/shop_17.py", "RATE = 1.9", "RATE = 0.19"), Run(TEST)]],
)

TAGS = '''"""Tags of articles."""


def tag_line(articles):
    """Return all tags of the articles, each once, in the order in which they first occur."""
    tags = set()
    for article in articles:
        for tag in article["tags"]:
            tags.add(tag.strip().lower())
    return ", ".join(tags)
'''

TAGS_TEST = '''import unittest

from tags import tag_line


class TagsTest(unittest.TestCase):
    def test_order(self):
        articles = [{"tags": ["News", "ink "]}, {"tags": ["ink", "art"]}]
        self.assertEqual(tag_line(articles), "news, ink, art")


if __name__ == "__main__":
    unittest.main()
'''


def flaky_hidden(repository):
    repository.unchanged("test_tags.py")
    for seed in range(12):
        repository.succeeds("python3 -m unittest -q test_tags", PYTHONHASHSEED=str(seed))
    require("PYTHONHASHSEED" not in repository.text("tags.py"), "the order depends on the environment")


FLAKY = Task(
    name="flaky",
    title="flaky check",
    request="The test of the tags fails now and then. Make it pass always, without changing the test.",
    check="python3 -m unittest -q test_tags",
    files={"tags.py": TAGS, "test_tags.py": TAGS_TEST},
    hidden=flaky_hidden,
    look=[[Run("for i in 1 2 3 4 5 6; do python3 -m unittest -q test_tags 2>&1 | tail -1; done"), Read("tags.py")]],
    work=[
        [
            Edit("tags.py", "    tags = set()\n", "    tags = {}\n"),
            Edit("tags.py", "            tags.add(tag.strip().lower())\n", "            tags[tag.strip().lower()] = None\n"),
            Run("for i in 1 2 3 4 5 6 7 8; do python3 -m unittest -q test_tags || exit 1; done"),
        ]
    ],
)

SERVICE = '''"""Starts the service with its configuration."""

import json
import pathlib

HERE = pathlib.Path(__file__).parent


def load(environment):
    """Return the base configuration with the values of an environment."""
    base = json.loads((HERE / "config/base.json").read_text())
    own = json.loads((HERE / f"config/{environment}.json").read_text())
    return {**base, **own}


def address(environment):
    found = load(environment)
    return f"{found['scheme']}://{found['host']}:{found['port']}"
'''

SERVICE_TEST = '''import unittest

from service import address


class ServiceTest(unittest.TestCase):
    def test_development(self):
        self.assertEqual(address("development"), "http://localhost:8080")

    def test_production(self):
        self.assertEqual(address("production"), "https://shop.example.org:443")


if __name__ == "__main__":
    unittest.main()
'''


def config_hidden(repository):
    repository.only("config/production.json")
    repository.python(
        "from service import address, load\n"
        "assert address('production') == 'https://shop.example.org:443'\n"
        "assert load('production')['workers'] == 8 and load('development')['workers'] == 2\n"
    )


CONFIG = Task(
    name="config",
    title="bug in a configuration file",
    request="The address in production is wrong. The code is right.",
    check=TEST,
    files={
        "service.py": SERVICE,
        "test_service.py": SERVICE_TEST,
        "config/base.json": '{\n  "scheme": "http",\n  "host": "localhost",\n  "port": 8080,\n  "workers": 2\n}\n',
        "config/development.json": "{}\n",
        "config/production.json": '{\n  "shceme": "https",\n  "host": "shop.example.org",\n  "port": 443,\n'
        '  "workers": 8\n}\n',
    },
    hidden=config_hidden,
    look=[[Run(TEST), Read("service.py")], [Read("config/production.json")]],
    work=[[Edit("config/production.json", '"shceme"', '"scheme"'), Run(TEST)]],
)

TASKS = [ONE_FILE, MISLEADING, LARGE, FLAKY, CONFIG]
