# Runs the code of a tool: a body that returns, a function `run(input)`, or a whole script that reads
# standard input and writes standard output by itself.
import ast
import io
import json
import sys

path = sys.argv[1]
with open(path, encoding="utf-8") as file:
    tree = ast.parse(file.read(), path)
arguments = sys.stdin.read()
answer = sys.stdout

try:
    program = compile(tree, path, "exec")
except SyntaxError as error:
    if "outside function" not in str(error):
        raise
    wrapper = ast.parse("def run(input):\n    pass")
    wrapper.body[0].body = tree.body
    tree = ast.fix_missing_locations(wrapper)
    program = compile(tree, path, "exec")

if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
    # Printed text goes to the log; only the return value is the answer.
    sys.stdout = sys.stderr
    scope = {"__name__": "__tool__", "__file__": path}
    exec(program, scope)
    json.dump(scope["run"](json.loads(arguments)), answer)
    answer.write("\n")
else:
    sys.stdin = io.StringIO(arguments)
    exec(program, {"__name__": "__main__", "__file__": path})
