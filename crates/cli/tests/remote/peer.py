"""An agent made with the official SDK for Python: it echoes, asks, fails, or takes long.

Usage: peer.py BINDING STREAMS. Prints its port when it listens, and `cancelled` when somebody cancels.
"""

import asyncio
import socket
import sys

import uvicorn
from a2a.helpers import get_message_text, new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette

binding, streams = sys.argv[1], sys.argv[2] == "yes"


class Agent(AgentExecutor):
    """Does what the message says."""

    async def execute(self, context, event_queue):
        task = context.current_task
        text = get_message_text(context.message)
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if text == "ask":
            await updater.requires_input(new_text_message("Which colour?"))
            return
        if text == "fail":
            await updater.failed(new_text_message("broken"))
            return
        if text == "wait":
            await asyncio.sleep(3600)
        first = [Part(text=f"{task.context_id} {text} ")]
        await updater.add_artifact(first, artifact_id="a", append=False, last_chunk=False)
        await updater.add_artifact([Part(text="done")], artifact_id="a", append=True, last_chunk=True)
        await updater.complete()

    async def cancel(self, context, event_queue):
        print("cancelled", flush=True)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
port = listener.getsockname()[1]
is_rpc = binding == "JSONRPC"
url = f"http://127.0.0.1:{port}" + ("/rpc" if is_rpc else "")
card = AgentCard(
    name="peer",
    description="peer",
    version="1",
    capabilities=AgentCapabilities(streaming=streams),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="echo", name="echo", description="echo", tags=["echo"])],
    supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")],
)
handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=card)
routes = create_jsonrpc_routes(handler, "/rpc") if is_rpc else create_rest_routes(handler)
app = Starlette(routes=create_agent_card_routes(card) + routes)
print(port, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
