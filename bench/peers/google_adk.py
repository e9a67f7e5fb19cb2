"""google-adk: `DatabaseSessionService` on a SQLite file, W asyncio tasks, in its two natural uses.

"own session": each writer loads the session once and appends with what it loaded, as each run of the
package's `Runner` does; a writer whose copy is older than the stored one is refused.
"shared session": all writers hold one session object, possible only inside one process.

The package leaves SQLite's journal mode alone; the file is put in WAL mode beforehand, which was measured
faster than SQLite's default and is what a careful user would do.
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

    def configuration(name, note, shares):
        async def run(path, load):
            with contextlib.closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
            service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
            warm = await service.create_session(app_name="bench", user_id="user", session_id="warm")
            for number in range(16):
                await service.append_event(warm, event(workload.content(0, number)))
            shared = await service.create_session(**key)
            copies = [shared if shares else await service.get_session(**key) for _ in range(load.writers)]

            async def append(writer, text):
                await service.append_event(copies[writer], event(text))

            outcome = await workload.with_tasks(load, append)
            stored = await service.get_session(**key)
            contents = [found.content.parts[0].text for found in stored.events]
            async with service.db_engine.connect() as connection:
                how = workload.durability(
                    (await connection.execute(sql("PRAGMA journal_mode"))).scalar_one(),
                    (await connection.execute(sql("PRAGMA synchronous"))).scalar_one(),
                )
            await service.close()
            return outcome, contents, how

        return workload.Configuration(f"google-adk DatabaseSessionService, {name}", run, 512, note)

    return [
        configuration("own session", "asyncio tasks, a loaded session each", False),
        configuration("shared session", "asyncio tasks on one session object", True),
    ]


if __name__ == "__main__":
    workload.main("google-adk", configurations)
