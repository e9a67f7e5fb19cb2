"""a2a-sdk: an agent that answers each message with its own text, over JSON-RPC, with its store in memory.

Usage: a2a_echo.py PORT. Prints one line when it listens. The benchmark stops it.
"""

import sys

import uvicorn
from a2a.helpers import get_message_text, new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.helpers import new_task_from_user_message
from a2a.types import AgentCapabilities, AgentCard
from starlette.applications import Starlette


class Echo(AgentExecutor):
    """Creates a task for each message and completes it with the same text, like our server."""

    async def execute(self, context, event_queue):
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        await updater.complete(new_text_message(get_message_text(context.message)))

    async def cancel(self, context, event_queue):
        raise NotImplementedError


card = AgentCard(
    name="echo",
    description="echo",
    version="1",
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
)
handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card)
app = Starlette(routes=create_jsonrpc_routes(handler, "/a2a"))
server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error"))
started = server.startup


async def startup(sockets=None):
    await started(sockets)
    print("listening", flush=True)


server.startup = startup
server.run()
