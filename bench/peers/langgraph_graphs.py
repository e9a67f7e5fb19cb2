"""langgraph: a loop of a counting node and a conditional edge, without a store and with its SQLite saver.

Prints one JSON line for each measurement: steps per second, where a step is one run of the node with its edge
(a superstep). The saver uses `durability="sync"`, which stores every step before the next begins.
"""

import importlib.metadata
import json
import pathlib
import tempfile
import time

ROUNDS = 3
STEPS = 2_000
DURABLE_STEPS = 500


def build(steps, saver=None):
    from typing import TypedDict

    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        n: int

    builder = StateGraph(State)
    builder.add_node("count", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", lambda state: "count" if state["n"] < steps else END)
    return builder.compile(checkpointer=saver)


def rate(steps, run):
    begun = time.perf_counter()
    found = run()
    seconds = time.perf_counter() - begun
    assert found["n"] == steps, found
    return steps / seconds


def in_memory():
    app = build(STEPS)
    config = {"recursion_limit": STEPS + 10}
    return max(rate(STEPS, lambda: app.invoke({"n": 0}, config)) for _ in range(ROUNDS))


def durable():
    from langgraph.checkpoint.sqlite import SqliteSaver

    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "graph.db")
        with SqliteSaver.from_conn_string(path) as saver:
            app = build(DURABLE_STEPS, saver)

            def once(number):
                config = {
                    "recursion_limit": DURABLE_STEPS + 10,
                    "configurable": {"thread_id": f"run {number}"},
                }
                return rate(DURABLE_STEPS, lambda: app.invoke({"n": 0}, config, durability="sync"))

            best = max(once(number) for number in range(ROUNDS))
            journal = saver.conn.execute("PRAGMA journal_mode").fetchone()[0]
            synchronous = saver.conn.execute("PRAGMA synchronous").fetchone()[0]
    return best, f"SqliteSaver, durability sync, journal_mode={journal}, synchronous={synchronous}"


def main():
    version = importlib.metadata.version("langgraph")
    say = {"peer": "langgraph", "version": version, "unit": "steps/s"}
    memory = in_memory()
    print(json.dumps({**say, "measure": "graph_steps", "per_second": memory, "note": "invoke, no checkpointer"}))
    stored, how = durable()
    print(json.dumps({**say, "measure": "durable_graph_steps", "per_second": stored, "note": how}))


if __name__ == "__main__":
    main()
