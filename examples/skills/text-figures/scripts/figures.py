"""Prints the number of words and lines of each given file."""
import sys

for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        text = file.read()
    print(f"{name}: {len(text.split())} words, {len(text.splitlines())} lines")
