"""An OpenAI-compatible endpoint on loopback that records every request. A function or the user provides the answers.

An answer is `{"content": TEXT, "tool_calls": [{"name": NAME, "arguments": {...}}]}`; both fields are optional. A call
may have `raw` instead of `arguments`: a text that the tool receives unchanged.
"""

import json
import pathlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = "gpt-5.1"


class Endpoint:
    """Serves until `close`. `requests` contains the bodies in the order of their arrival."""

    def __init__(self, answer, folder=None):
        self.answer = answer
        self.folder = pathlib.Path(folder) if folder else None
        self.requests = []
        self.refused = []
        self.thinking = 0.0
        self.failure = None
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def respond(self, body):
        """Records a request and returns its number and answer. Answers one request at a time."""
        with self.lock:
            self.requests.append(body)
            number = len(self.requests)
            if self.folder:
                save(self.folder / f"{number:03d}.request.json", json.dumps(body, indent=1))
                save(self.folder / f"{number:03d}.request.txt", readable(body))
            begun = time.monotonic()
            try:
                return number, self.answer(body)
            except Exception as failure:
                self.failure = self.failure or f"request {number}: {failure}"
                raise
            finally:
                self.thinking += time.monotonic() - begun


def by_hand(folder, seconds=3600):
    """Returns an answer function that waits for the file NNN.response.json of each request."""
    folder = pathlib.Path(folder)
    count = 0

    def answer(_body):
        nonlocal count
        count += 1
        path = folder / f"{count:03d}.response.json"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                return json.loads(path.read_text())
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.2)
        raise TimeoutError(f"{path} was not written within {seconds} seconds")

    return answer


def save(path, text):
    """Writes a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.rename(path)


def messages(body):
    """Yields the messages of a request as (role, text), for both protocols."""
    if "instructions" in body:
        yield "system", body["instructions"] or ""
    for item in body.get("messages") or body.get("input") or []:
        kind = item.get("type")
        if kind in ("function_call", "custom_tool_call"):
            yield "assistant", f"[tool call {item.get('call_id')}] {item['name']} " + item.get("arguments", item.get("input", ""))
            continue
        if kind in ("function_call_output", "custom_tool_call_output"):
            yield f"tool {item.get('call_id')}", flat(item.get("output"))
            continue
        text = flat(item.get("content"))
        for call in item.get("tool_calls") or []:
            text += f"\n[tool call {call['id']}] {call['function']['name']} {call['function']['arguments']}"
        yield f"{item.get('role', kind)} {item.get('tool_call_id', '')}".strip(), text


def flat(content):
    if isinstance(content, list):
        return "\n".join(part.get("text", f"({part.get('type')})") for part in content)
    return content or ""


def tools(body):
    """Yields the declared tools as (name, description, parameters)."""
    for tool in body.get("tools") or []:
        found = tool.get("function", tool)
        yield found.get("name", found.get("type")), found.get("description"), found.get("parameters")


def readable(body):
    parts = [f"##### {role}\n{text}" for role, text in messages(body)]
    parts.append("##### TOOLS")
    parts += [f"- {name}: {about}\n    {json.dumps(schema)}" for name, about, schema in tools(body)]
    rest = {key: value for key, value in body.items() if key not in ("messages", "input", "instructions", "tools")}
    return "\n".join([*parts, "##### REST " + json.dumps(rest)])


def refusal(body):
    """Returns the reason why OpenAI would refuse a request: invalid tool names, or calls without a result."""
    names = [name for name, _, _ in tools(body)]
    if len(set(names)) != len(names):
        return "tools: names are not unique"
    if len(names) > 128:
        return "tools: more than 128"
    for name in names:
        if not name or len(name) > 64 or not name.replace("_", "").replace("-", "").isalnum():
            return f"tools: invalid name {name!r}"
    waiting = set()
    for item in body.get("messages") or []:
        if item.get("role") == "tool":
            if item.get("tool_call_id") not in waiting:
                return "messages: a tool result without its call"
            waiting.discard(item["tool_call_id"])
            continue
        if waiting:
            return f"messages: tool calls without a result: {sorted(waiting)}"
        waiting = {call["id"] for call in item.get("tool_calls") or []}
    return f"messages: tool calls without a result: {sorted(waiting)}" if waiting else None


def handler(endpoint):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            self.whole(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}], "models": []})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
            reason = refusal(body)
            if reason:
                endpoint.refused.append(reason)
                self.whole(400, {"error": {"message": reason, "type": "invalid_request_error", "code": None}})
                return
            try:
                number, answer = endpoint.respond(body)
            except Exception as failure:  # the program under test receives an error of the provider
                self.whole(400, {"error": {"message": str(failure), "type": "invalid_request_error", "code": None}})
                return
            usage = (len(json.dumps(body)) // 4, len(json.dumps(answer)) // 4)
            render = responses if self.path.endswith("/responses") else chat
            events, document = render(number, answer, usage)
            if body.get("stream"):
                self.stream(events)
            else:
                self.whole(200, document)

        def whole(self, status, document):
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def stream(self, events):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for event in events:
                self.wfile.write(event.encode())
            self.wfile.flush()
            self.close_connection = True

    return Handler


def chat(number, answer, usage):
    """Chat Completions: returns the events of a stream, and the complete document."""
    calls = [
        {"id": f"call_{number}_{index}", "type": "function", "function": {"name": call["name"], "arguments": arguments(call)}}
        for index, call in enumerate(answer.get("tool_calls") or [])
    ]
    text = answer.get("content") or ""
    reason = "tool_calls" if calls else "stop"
    counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    common = {"id": f"chatcmpl-{number}", "created": int(time.time()), "model": MODEL}
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text}] if text else []
    deltas += [{"tool_calls": [{**call, "index": index} for index, call in enumerate(calls)]}] if calls else []
    chunks = [choice(common, delta, None) for delta in deltas] + [choice(common, {}, reason)]
    chunks.append({**common, "object": "chat.completion.chunk", "choices": [], "usage": counts})
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"]
    message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    return events, {**common, "object": "chat.completion", "choices": choices, "usage": counts}


def choice(common, delta, reason):
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {**common, "object": "chat.completion.chunk", "choices": choices}


def responses(number, answer, usage):
    """Responses: returns the events of a stream, and the complete document."""
    items = []
    if answer.get("content"):
        content = [{"type": "output_text", "text": answer["content"], "annotations": []}]
        items.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content})
    for index, call in enumerate(answer.get("tool_calls") or []):
        common = {"id": f"fc_{number}_{index}", "call_id": f"call_{number}_{index}", "name": call["name"], "status": "completed"}
        if "raw" in call:
            items.append({"type": "custom_tool_call", "input": call["raw"], **common})
        else:
            items.append({"type": "function_call", "arguments": arguments(call), **common})
    counts = {
        "input_tokens": usage[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(usage),
    }
    document = {"id": f"resp_{number}", "object": "response", "status": "completed", "model": MODEL, "output": items, "usage": counts}
    events = [{"type": "response.created", "response": {**document, "status": "in_progress", "output": []}}]
    for index, item in enumerate(items):
        place = {"output_index": index, "item": item}
        events.append({"type": "response.output_item.added", **place})
        if item["type"] == "message":
            text = item["content"][0]["text"]
            delta = {"item_id": item["id"], "output_index": index, "content_index": 0, "delta": text}
            events.append({"type": "response.output_text.delta", **delta})
        events.append({"type": "response.output_item.done", **place})
    events.append({"type": "response.completed", "response": document})
    lines = [{**event, "sequence_number": position} for position, event in enumerate(events)]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in lines], document


def arguments(call):
    return call["raw"] if "raw" in call else json.dumps(call.get("arguments", {}))
