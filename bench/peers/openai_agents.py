"""openai-agents: one `SQLiteSession` object on a SQLite file, shared by W asyncio tasks.

Sharing one object is the fastest realistic use: in measurements, an object per task
was not faster, and a thread per writer and the package's `AsyncSQLiteSession` were slower.
"""

import workload


def configurations():
    from agents import SQLiteSession

    async def run(path, load):
        session = SQLiteSession("bench", path)
        warm = SQLiteSession("warm", path)
        for number in range(32):
            await warm.add_items([{"role": "user", "content": workload.content(0, number)}])

        async def append(_writer, text):
            await session.add_items([{"role": "user", "content": text}])

        outcome = await workload.with_tasks(load, append)
        contents = [item["content"] for item in await session.get_items()]
        with session._locked_connection() as connection:
            durability = workload.durability(
                connection.execute("PRAGMA journal_mode").fetchone()[0],
                connection.execute("PRAGMA synchronous").fetchone()[0],
            )
        warm.close()
        session.close()
        return outcome, contents, durability

    return [
        workload.Configuration(
            "openai-agents SQLiteSession", run, 4096, "asyncio tasks on one session object"
        )
    ]


if __name__ == "__main__":
    workload.main("openai-agents", configurations)
