"""Prints the words and lines of each file that is named."""
import sys

for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        text = file.read()
    print(f"{name}: {len(text.split())} words, {len(text.splitlines())} lines")
