"""langgraph with langgraph-checkpoint-sqlite: a graph whose state is the message list, one thread id.

Appends messages with `update_state`, which was faster in measurements than running the graph for each
message with any `durability`. Measures both savers of the package: `AsyncSqliteSaver` from asyncio tasks and
`SqliteSaver` from threads.
"""

import workload


def configurations():
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    bench = {"configurable": {"thread_id": "bench"}}
    warm = {"configurable": {"thread_id": "warm"}}

    def graph(saver):
        builder = StateGraph(MessagesState)
        builder.add_node("keep", lambda _state: {})
        builder.add_edge(START, "keep")
        builder.add_edge("keep", END)
        return builder.compile(checkpointer=saver)

    def message(text):
        return {"messages": [HumanMessage(content=text)]}

    def contents(state):
        return [found.content for found in state.values.get("messages", [])]

    async def run_tasks(path, load):
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            app = graph(saver)
            for number in range(16):
                await app.aupdate_state(warm, message(workload.content(0, number)), as_node="keep")

            async def append(_writer, text):
                await app.aupdate_state(bench, message(text), as_node="keep")

            outcome = await workload.with_tasks(load, append)
            found = contents(await app.aget_state(bench))
            how = workload.durability(
                (await (await saver.conn.execute("PRAGMA journal_mode")).fetchone())[0],
                (await (await saver.conn.execute("PRAGMA synchronous")).fetchone())[0],
            )
            return outcome, found, how

    async def run_threads(path, load):
        with SqliteSaver.from_conn_string(path) as saver:
            app = graph(saver)
            for number in range(16):
                app.update_state(warm, message(workload.content(0, number)), as_node="keep")

            def append(_writer, text):
                app.update_state(bench, message(text), as_node="keep")

            outcome = workload.with_threads(load, append)
            found = contents(app.get_state(bench))
            how = workload.durability(
                saver.conn.execute("PRAGMA journal_mode").fetchone()[0],
                saver.conn.execute("PRAGMA synchronous").fetchone()[0],
            )
            return outcome, found, how

    return [
        workload.Configuration(
            "langgraph AsyncSqliteSaver", run_tasks, 512, "asyncio tasks, update_state on one thread id"
        ),
        workload.Configuration(
            "langgraph SqliteSaver", run_threads, 512, "threads, update_state on one thread id"
        ),
    ]


if __name__ == "__main__":
    workload.main("langgraph", configurations, "langgraph-checkpoint-sqlite")
