"""google-adk: `DatabaseSessionService` on a SQLite file, shared by W asyncio tasks in two ways.

"own session": each writer loads the session once and appends to its copy, like each run of the package's
`Runner`. The service refuses a writer whose copy is older than the stored session.
"shared session": all writers share one session object, which is possible only inside one process.

The package does not set SQLite's journal mode. The file is set to WAL mode beforehand, because WAL was
faster in measurements than SQLite's default, and a careful user would choose it.
"""

import contextlib
import sqlite3

import workload


def configurations():
    from google.adk.events import Event
    from google.adk.sessions import DatabaseSessionService
    from google.genai import types
    from sqlalchemy import text as sql

    key = {"app_name": "bench", "user_id": "user", "session_id": "session"}

    def event(text):
        part = types.Part(text=text)
        return Event(author="user", invocation_id="bench", content=types.Content(role="user", parts=[part]))

    def configuration(name, note, is_shared):
        async def run(path, load):
            with contextlib.closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
            service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
            warm = await service.create_session(app_name="bench", user_id="user", session_id="warm")
            for number in range(16):
                await service.append_event(warm, event(workload.content(0, number)))
            shared = await service.create_session(**key)
            copies = [shared if is_shared else await service.get_session(**key) for _ in range(load.writers)]

            async def append(writer, text):
                await service.append_event(copies[writer], event(text))

            outcome = await workload.with_tasks(load, append)
            stored = await service.get_session(**key)
            contents = [found.content.parts[0].text for found in stored.events]
            async with service.db_engine.connect() as connection:
                durability = workload.durability(
                    (await connection.execute(sql("PRAGMA journal_mode"))).scalar_one(),
                    (await connection.execute(sql("PRAGMA synchronous"))).scalar_one(),
                )
            await service.close()
            return outcome, contents, durability

        return workload.Configuration(f"google-adk DatabaseSessionService, {name}", run, 512, note)

    return [
        configuration("own session", "asyncio tasks, each with its own copy of the session", False),
        configuration("shared session", "asyncio tasks on one session object", True),
    ]


if __name__ == "__main__":
    workload.main("google-adk", configurations)
