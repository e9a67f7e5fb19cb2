"""Tasks in Rust, C, JavaScript, Go and shell."""

from task import Edit, Read, Run, Search, Task, require

from .seven import SEVEN_FILES

WORDS_LIB = '''//! Counts words.

use std::collections::HashMap;

/// Counts of words, in lower case.
#[derive(Default)]
pub struct Words {
    counts: HashMap<String, usize>,
}

impl Words {
    pub fn add(&mut self, text: &str) {
        for word in text.split_whitespace() {
            *self.counts.entry(word.to_lowercase()).or_default() += 1;
        }
    }

    /// The most frequent words: highest count first, equal counts in alphabetical order.
    pub fn top(&self, most: usize) -> Vec<(&str, usize)> {
        let mut words: Vec<_> = self.counts.iter().map(|(word, count)| (word.as_str(), count)).collect();
        words.sort_by_key(|(word, count)| (count, word));
        words.truncate(most);
        words
    }
}
'''

WORDS_TEST = '''use words::Words;

#[test]
fn the_most_frequent_words_come_first() {
    let mut words = Words::default();
    words.add("b a B c a b");
    assert_eq!(words.top(2), [("b", 3), ("a", 2)]);
    words.add("c");
    assert_eq!(words.top(3), [("b", 3), ("a", 2), ("c", 2)]);
}
'''


def rust_hidden(repository):
    repository.unchanged("tests/top.rs")
    (repository.folder / "tests/hidden.rs").write_text(
        'use words::Words;\n#[test]\nfn hidden() {\n    let mut words = Words::default();\n'
        '    words.add("z y x x");\n    assert_eq!(words.top(9), [("x", 2), ("y", 1), ("z", 1)]);\n'
        "    assert!(words.top(0).is_empty());\n}\n"
    )
    repository.succeeds("cargo test -q --offline")


RUST = Task(
    name="rust-compile",
    title="Rust: compile error, then a wrong sort order",
    request="The crate does not compile. Make its test pass.",
    check="cargo test -q --offline",
    needs=("cargo",),
    files={
        "Cargo.toml": '[package]\nname = "words"\nversion = "0.1.0"\nedition = "2021"\n',
        ".gitignore": "/target\n/Cargo.lock\n",
        "src/lib.rs": WORDS_LIB,
        "tests/top.rs": WORDS_TEST,
    },
    hidden=rust_hidden,
    look=[[Run("cargo test -q --offline"), Read("src/lib.rs"), Read("tests/top.rs")]],
    work=[
        [
            Edit("src/lib.rs", "(word.as_str(), count)", "(word.as_str(), *count)"),
            Edit(
                "src/lib.rs",
                "words.sort_by_key(|(word, count)| (count, word));",
                "words.sort_by_key(|(word, count)| (std::cmp::Reverse(*count), *word));",
            ),
            Run("cargo test -q --offline"),
        ]
    ],
)

C_FIELD = '''#include "field.h"

#include <string.h>

void copy_field(char *target, size_t size, const char *source) {
    strncpy(target, source, size);
}

int split_fields(char fields[][FIELD], int most, const char *line) {
    int count = 0;
    while (count < most) {
        const char *end = strchr(line, ',');
        size_t length = end ? (size_t)(end - line) : strlen(line);
        char text[FIELD * 2];
        memcpy(text, line, length);
        text[length] = 0;
        copy_field(fields[count++], FIELD, text);
        if (!end) break;
        line = end + 1;
    }
    return count;
}
'''

C_HEADER = '''#include <stddef.h>

#define FIELD 8

/* Copies a text that may be longer than the target, which is always terminated. */
void copy_field(char *target, size_t size, const char *source);

/* Splits a line at commas; longer fields are cut. Returns the number of fields. */
int split_fields(char fields[][FIELD], int most, const char *line);
'''

C_TEST = '''#include "field.h"

#include <stdio.h>
#include <string.h>

int main(void) {
    char fields[4][FIELD];
    memset(fields, 'x', sizeof fields);
    int count = split_fields(fields, 4, "ink,stationery,pen");
    if (count != 3 || strcmp(fields[0], "ink") || strcmp(fields[1], "station") || strcmp(fields[2], "pen")) {
        printf("FAILED: %d fields: %.8s|%.8s|%.8s\\n", count, fields[0], fields[1], fields[2]);
        return 1;
    }
    puts("passed");
    return 0;
}
'''

C_MAKEFILE = """CFLAGS = -Wall -Wextra -g

test: build/test
\t./build/test

build/test: test.c field.c field.h
\tmkdir -p build
\t$(CC) $(CFLAGS) -o $@ test.c field.c

clean:
\trm -rf build
"""

C_HIDDEN = '''#include "field.h"
#include <string.h>
int main(void) {
    char fields[2][FIELD];
    memset(fields, 'x', sizeof fields);
    if (split_fields(fields, 2, "a-very-long-field-that-is-much-longer-than-any-buffer-should-be,b") != 2) return 1;
    if (strcmp(fields[0], "a-very-") || strcmp(fields[1], "b")) return 2;
    return split_fields(fields, 1, "") == 1 && fields[0][0] == 0 ? 0 : 3;
}
'''


def c_hidden(repository):
    repository.unchanged("test.c", "Makefile")
    hidden = repository.folder.parent / "hidden.c"
    hidden.write_text(C_HIDDEN)
    repository.succeeds(
        f"cc -Wall -g -fsanitize=address,undefined -I. -o ../hidden-c {hidden} field.c && ../hidden-c",
        ASAN_OPTIONS="detect_leaks=0",
    )
    repository.succeeds("make -s test")


C = Task(
    name="c-memory",
    title="C: missing terminator, and an overflow that no test shows",
    request="`make test` fails: a field that is too long is not terminated. Lines of any length must be safe.",
    check="make -s test",
    needs=("cc", "make"),
    files={"field.c": C_FIELD, "field.h": C_HEADER, "test.c": C_TEST, "Makefile": C_MAKEFILE, ".gitignore": "build/\n"},
    hidden=c_hidden,
    look=[[Run("make -s test"), Read("field.c"), Read("field.h")]],
    work=[
        [
            Edit(
                "field.c",
                "    strncpy(target, source, size);\n",
                "    size_t length = strnlen(source, size - 1);\n    memcpy(target, source, length);\n"
                "    target[length] = 0;\n",
            ),
            Edit(
                "field.c",
                "        char text[FIELD * 2];\n        memcpy(text, line, length);\n        text[length] = 0;\n"
                "        copy_field(fields[count++], FIELD, text);\n",
                "        char text[FIELD];\n        if (length > FIELD - 1) length = FIELD - 1;\n"
                "        memcpy(text, line, length);\n        text[length] = 0;\n"
                "        copy_field(fields[count++], FIELD, text);\n",
            ),
            Run("make -s test"),
        ]
    ],
)

CART = """'use strict';

const { priceOf } = require('./prices');

// The sum of a cart in cents.
async function total(items) {
  let sum = 0;
  items.forEach(async (item) => {
    sum += (await priceOf(item.name)) * item.count;
  });
  return sum;
}

module.exports = { total };
"""

PRICES = """'use strict';

const PRICES = { pen: 150, ink: 799 };

// The price in cents; unknown names are rejected.
async function priceOf(name) {
  await new Promise((resolve) => setTimeout(resolve, 2));
  if (!(name in PRICES)) throw new Error(`no price for ${name}`);
  return PRICES[name];
}

module.exports = { priceOf };
"""

CART_TEST = """'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { total } = require('../lib/cart');

test('the sum of a cart', async () => {
  assert.strictEqual(await total([{ name: 'pen', count: 2 }, { name: 'ink', count: 1 }]), 1099);
});

test('an unknown article is an error', async () => {
  await assert.rejects(total([{ name: 'glue', count: 1 }]), /no price for glue/);
});
"""


def node_hidden(repository):
    repository.unchanged("test/cart.test.js", "lib/prices.js")
    repository.succeeds("npm test --silent")
    repository.succeeds(
        "node -e \"require('./lib/cart').total([]).then((sum) => process.exit(sum === 0 ? 0 : 1))\""
    )


NODE = Task(
    name="node-async",
    title="JavaScript: missing await in a loop",
    request="The tests of the cart fail. Fix the cart.",
    check="npm test --silent",
    needs=("node", "npm"),
    files={
        "package.json": '{\n  "name": "cart",\n  "version": "1.0.0",\n  "scripts": {"test": "node --test test/"}\n}\n',
        "lib/cart.js": CART,
        "lib/prices.js": PRICES,
        "test/cart.test.js": CART_TEST,
    },
    hidden=node_hidden,
    look=[[Run("npm test --silent"), Read("lib/cart.js"), Read("lib/prices.js")]],
    work=[
        [
            Edit(
                "lib/cart.js",
                "  items.forEach(async (item) => {\n    sum += (await priceOf(item.name)) * item.count;\n  });\n",
                "  for (const item of items) {\n    sum += (await priceOf(item.name)) * item.count;\n  }\n",
            ),
            Run("npm test --silent"),
        ]
    ],
)

GO_CACHE = '''// Package cache keeps the newest values.
package cache

// Cache holds at most Size values and drops the one that was not used for the longest time.
type Cache struct {
	Size   int
	values map[string]int
	order  []string
}

// Put stores a value.
func (c *Cache) Put(key string, value int) {
	if c.values == nil {
		c.values = map[string]int{}
	}
	if len(c.order) == c.Size {
		delete(c.values, c.order[0])
		c.order = c.order[1:]
	}
	c.values[key] = value
	c.order = append(c.order, key)
}

// Get returns a value; it counts as used.
func (c *Cache) Get(key string) (int, bool) {
	value, found := c.values[key]
	return value, found
}
'''

GO_TEST = '''package cache

import "testing"

func TestTheLeastRecentlyUsedValueIsDropped(t *testing.T) {
	c := Cache{Size: 2}
	c.Put("a", 1)
	c.Put("b", 2)
	c.Get("a")
	c.Put("c", 3)
	if _, found := c.Get("b"); found {
		t.Error("b is still there")
	}
	if value, found := c.Get("a"); !found || value != 1 {
		t.Error("a was dropped")
	}
}
'''

GO_HIDDEN = '''package cache

import "testing"

func TestHidden(t *testing.T) {
	c := Cache{Size: 2}
	c.Put("a", 1)
	c.Put("a", 2)
	c.Put("b", 3)
	if value, found := c.Get("a"); !found || value != 2 {
		t.Error("putting a key twice must not fill the cache")
	}
	c.Get("missing")
	c.Put("c", 4)
	if _, found := c.Get("b"); found {
		t.Error("b was used least recently")
	}
	if len(c.values) != 2 {
		t.Error("there are", len(c.values), "values")
	}
}
'''

GO_FIX = Edit(
    "cache.go",
    "	if len(c.order) == c.Size {\n		delete(c.values, c.order[0])\n		c.order = c.order[1:]\n	}\n"
    "	c.values[key] = value\n	c.order = append(c.order, key)\n}\n",
    "	if _, found := c.values[key]; !found && len(c.order) == c.Size {\n		delete(c.values, c.order[0])\n"
    "		c.order = c.order[1:]\n	}\n	c.values[key] = value\n	c.use(key)\n}\n\n"
    "// use moves a key to the end of the order.\nfunc (c *Cache) use(key string) {\n"
    "	for i, other := range c.order {\n		if other == key {\n"
    "			c.order = append(c.order[:i], c.order[i+1:]...)\n			break\n		}\n	}\n"
    "	c.order = append(c.order, key)\n}\n",
)


def go_hidden(repository):
    repository.unchanged("cache_test.go")
    (repository.folder / "hidden_test.go").write_text(GO_HIDDEN)
    repository.succeeds("go test ./...", GOFLAGS="-mod=mod")


GO = Task(
    name="go-cache",
    title="Go: cache drops the wrong entry",
    request="The test of the cache fails. Fix the cache, also for keys that are put twice.",
    check="go test ./...",
    needs=("go",),
    files={"go.mod": "module example.org/cache\n\ngo 1.19\n", "cache.go": GO_CACHE, "cache_test.go": GO_TEST},
    hidden=go_hidden,
    look=[[Run("go test ./..."), Read("cache.go")]],
    work=[
        [
            GO_FIX,
            Edit(
                "cache.go",
                "	value, found := c.values[key]\n	return value, found\n",
                "	value, found := c.values[key]\n	if found {\n		c.use(key)\n	}\n	return value, found\n",
            ),
            Run("go test ./..."),
        ]
    ],
)

BACKUP = """#!/usr/bin/env bash
# Copies every text file below a folder into a backup folder, flat.
# Usage: backup.sh FOLDER TARGET
set -eu
mkdir -p $2
for file in $(find $1 -name '*.txt'); do
    cp $file $2/
done
ls $2 | wc -l
"""

BACKUP_TEST = """#!/usr/bin/env bash
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/in/two words"
echo 1 >"$place/in/a.txt"
echo 2 >"$place/in/two words/b c.txt"
found=$(./backup.sh "$place/in" "$place/the copy")
[[ $found -eq 2 ]] || { echo "FAILED: $found files were copied, expected 2"; exit 1; }
cmp "$place/in/two words/b c.txt" "$place/the copy/b c.txt"
echo passed
"""


def shell_hidden(repository):
    repository.unchanged("test.sh")
    repository.succeeds("bash test.sh")
    repository.succeeds(
        "place=$(mktemp -d) && mkdir \"$place/in\" && touch \"$place/in/-n.txt\" \"$place/in/*.txt\" "
        "\"$place/in/a  b.txt\" && [ $(./backup.sh \"$place/in\" \"$place/out\") -eq 3 ]"
    )


SHELL = Task(
    name="shell-names",
    title="shell script that breaks on names with spaces",
    request="The backup script fails for names with spaces. Make it work with every file name.",
    check="bash test.sh",
    needs=("bash",),
    files={"backup.sh": BACKUP, "test.sh": BACKUP_TEST},
    hidden=shell_hidden,
    look=[[Run("bash test.sh"), Read("backup.sh"), Read("test.sh")]],
    work=[
        [
            Edit(
                "backup.sh",
                "mkdir -p $2\nfor file in $(find $1 -name '*.txt'); do\n    cp $file $2/\ndone\nls $2 | wc -l\n",
                'mkdir -p -- "$2"\nfind "$1" -name \'*.txt\' -exec cp -- {} "$2/" \\;\nls -- "$2" | wc -l\n',
            ),
            Run("bash test.sh"),
        ]
    ],
)

NAMES = ("list.c", "print.c", "main.c", "test.c")
OLD, NEW = "list_add", "list_append"

LIST_FILES = {
    "list.h": "#define LIST_MAX 16\n\nstruct list { int count; int items[LIST_MAX]; };\n\n"
    "/* Adds an item at the end. Returns 0 when the list is full. */\nint list_add(struct list *list, int item);\n"
    "int list_sum(const struct list *list);\nvoid list_print(const struct list *list);\n",
    "list.c": '#include "list.h"\n\nint list_add(struct list *list, int item) {\n    if (list->count == LIST_MAX) return 0;\n'
    "    list->items[list->count++] = item;\n    return 1;\n}\n\nint list_sum(const struct list *list) {\n    int sum = 0;\n"
    "    for (int i = 0; i < list->count; i++) sum += list->items[i];\n    return sum;\n}\n",
    "print.c": '#include "list.h"\n\n#include <stdio.h>\n\n/* Prints what list_add added. */\n'
    "void list_print(const struct list *list) {\n    for (int i = 0; i < list->count; i++) printf(\"%d\\n\", "
    "list->items[i]);\n}\n",
    "main.c": '#include "list.h"\n\n#include <stdlib.h>\n\nint main(int count, char **arguments) {\n    struct list list = {0};\n'
    "    for (int i = 1; i < count; i++) {\n        if (!list_add(&list, atoi(arguments[i]))) return 1;\n    }\n"
    "    list_print(&list);\n    return 0;\n}\n",
    "test.c": '#include "list.h"\n\n#include <stdio.h>\n\nint main(void) {\n    struct list list = {0};\n    for (int i = 0; i < '
    "LIST_MAX; i++) {\n        if (!list_add(&list, i)) return 1;\n    }\n    if (list_add(&list, 99)) return 2;\n"
    '    if (list_sum(&list) != 120) return 3;\n    puts("passed");\n    return 0;\n}\n',
    "Makefile": "test:\n\tmkdir -p build\n\t$(CC) -Wall -Werror -o build/test test.c list.c print.c\n"
    "\t$(CC) -Wall -Werror -o build/main main.c list.c print.c\n\t./build/test\n",
    "README.md": "# List\n\nCall `list_add` for each item, then `list_print`. There is no `list_addall`.\n",
    ".gitignore": "build/\n",
}


def rename_hidden(repository):
    for path in ("list.h", "list.c", "print.c", "main.c", "test.c", "README.md"):
        text = repository.text(path).replace("list_addall", "")
        require(OLD not in text, f"{path} still has {OLD}")
        require(NEW in text, f"{path} does not have {NEW}")
    require("list_addall" in repository.text("README.md"), "another name was renamed too")
    repository.unchanged("Makefile")
    repository.succeeds("make -s test && [ \"$(./build/main 3 4)\" = \"$(printf '3\\n4')\" ]")


RENAME = Task(
    name="rename",
    title="rename of a function in six files",
    request="Rename the function `list_add` to `list_append` everywhere: code, comments and README. Nothing else "
    "changes.",
    check="make -s test",
    needs=("cc", "make"),
    files=LIST_FILES,
    hidden=rename_hidden,
    look=[[Search(OLD), Run("make -s test")]],
    work=[
        [
            Run("sed -i 's/\\blist_add\\b/list_append/g' list.h list.c print.c main.c test.c README.md"),
            Run("grep -rn 'list_add\\b' --include='*.[ch]' --include='*.md' . ; make -s test"),
        ]
    ],
)

TASKS = [SEVEN_FILES, RUST, C, NODE, GO, SHELL, RENAME]
