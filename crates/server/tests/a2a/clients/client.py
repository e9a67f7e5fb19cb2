"""A client made with the Python SDK of A2A: each step fails loudly when the server answers otherwise.

Usage: client.py SERVER BINDING   (JSONRPC or HTTP+JSON)
"""

import asyncio
import http.server
import json
import queue
import sys
import threading

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from google.protobuf.json_format import ParseDict

posted = queue.Queue()


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        posted.put((self.headers.get("Authorization"), json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def request(message_id, task=None, hook=None):
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
    if task:
        message["taskId"] = task
    made = {"message": message, "configuration": {}}
    if hook:
        made["configuration"]["taskPushNotificationConfig"] = hook
    return ParseDict(made, SendMessageRequest())


async def all_of(stream):
    return [update async for update in stream]


async def main(server, binding):
    hook = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    address = f"http://localhost:{hook.server_port}/webhook"

    def config(streaming):
        return ClientConfig(
            streaming=streaming,
            supported_protocol_bindings=[binding],
            use_client_preference=True,
            httpx_client=httpx.AsyncClient(timeout=20, trust_env=False),
        )

    plain = await create_client(server, config(False))
    client = await create_client(server, config(True))

    [sent] = await all_of(plain.send_message(request("tck-complete-task-py")))
    task = sent.task
    assert task.status.state == TaskState.TASK_STATE_COMPLETED, task
    assert task.status.message.parts[0].text == "Hello from TCK", task
    found = await client.get_task(GetTaskRequest(id=task.id))
    assert found.id == task.id and found.history[0].parts[0].text == "Hello"

    told = await all_of(client.send_message(request("tck-stream-artifact-chunked-py")))
    assert told[0].HasField("task"), told
    texts = [u.artifact_update.artifact.parts[0].text for u in told if u.HasField("artifact_update")]
    assert texts == ["chunk-1 ", "chunk-2"], told
    assert told[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, told

    listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id, page_size=5))
    assert [one.id for one in listed.tasks] == [task.id] and listed.total_size == 1, listed

    [waits] = await all_of(plain.send_message(request("tck-input-required-py")))
    assert waits.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, waits
    stream = client.subscribe(SubscribeToTaskRequest(id=waits.task.id))
    first = await anext(stream)
    assert first.task.id == waits.task.id, first
    await all_of(plain.send_message(request("tck-complete-task-py", waits.task.id)))
    rest = await all_of(stream)
    assert rest[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, rest

    [waits] = await all_of(plain.send_message(request("tck-input-required-py")))
    over = await client.cancel_task(CancelTaskRequest(id=waits.task.id))
    assert over.status.state == TaskState.TASK_STATE_CANCELED, over
    try:
        await client.cancel_task(CancelTaskRequest(id=waits.task.id))
        raise AssertionError("a task that is over was cancelled")
    except AssertionError:
        raise
    except Exception as error:
        assert "NotCancelable" in type(error).__name__, repr(error)

    secret = {"scheme": "Bearer", "credentials": "py-token"}
    wanted = {"id": "inline", "url": address, "authentication": secret}
    await all_of(plain.send_message(request("tck-complete-task-py", hook=wanted)))
    states = []
    while not states or states[-1] != "TASK_STATE_COMPLETED":
        authorization, body = await asyncio.to_thread(posted.get, True, 20)
        assert authorization == "Bearer py-token", authorization
        states.append(body["statusUpdate"]["status"]["state"])
    made = await client.create_task_push_notification_config(
        TaskPushNotificationConfig(task_id=task.id, id="later", url=address)
    )
    assert made.id == "later" and made.task_id == task.id, made
    names = {"task_id": task.id, "id": "later"}
    await client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**names))
    several = await client.list_task_push_notification_configs(
        ListTaskPushNotificationConfigsRequest(task_id=task.id)
    )
    assert len(several.configs) == 1, several
    for _ in range(2):
        await client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(**names)
        )
    card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert card.name == "CleverAgents", card
    print(f"python {binding}: send, stream, get, list, subscribe, cancel, push, card")


asyncio.run(main(*sys.argv[1:3]))
