"""Computes figures about the requests of one task."""

import json

from endpoint import messages, tools

# Minimum size of repeated text, in bytes (about 200 tokens).
BLOCK = 800


def tokens(value):
    """Estimated tokens: a quarter of the characters of the JSON."""
    return len(json.dumps(value)) // 4


def count(requests):
    """Computes the figures of a list of request bodies."""
    sent = sum(tokens(body) for body in requests)
    definitions = sum(tokens(body["tools"]) for body in requests if body.get("tools"))
    return {
        "calls": len(requests),
        "tokens": sent,
        "first_request": tokens(requests[0]) if requests else 0,
        "tools": max((len(list(tools(body))) for body in requests), default=0),
        "definitions": definitions,
        "definitions_share": share(definitions, sent),
        "repeated_bytes": max((repeated(body) for body in requests), default=0),
        "conversations": len(conversations(requests)),
        "stable_prefix": stable_prefix(requests),
        "questions": questions(requests),
    }


def share(part, whole):
    return round(part / whole, 3) if whole else 0.0


def repeated(body):
    """Number of bytes of a request in blocks of lines that occur earlier in the same request."""
    lines = []
    for _, text in messages(body):
        lines += [line.strip() for line in unpacked(text).splitlines() if line.strip()]
    seen, again = set(), set()
    for first in range(len(lines)):
        size, last = 0, first
        while last < len(lines) and size <= BLOCK:
            size += len(lines[last].encode()) + 1
            last += 1
        if size <= BLOCK:
            break
        block = "\n".join(lines[first:last])
        if block in seen:
            again.update(range(first, last))
        seen.add(block)
    return sum(len(lines[index].encode()) + 1 for index in again)


def unpacked(text):
    """The text of a message; if it is JSON, the strings in it."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return "\n".join(strings(found)) if isinstance(found, (dict, list)) else text


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def conversations(requests):
    """Groups the requests by their instructions. A provider's prompt cache works only within such a conversation."""
    found = {}
    for body in requests:
        role, text = next(messages(body), ("", ""))
        found.setdefault((role, text), []).append(body)
    return list(found.values())


def stable_prefix(requests):
    """The share of requests that is also the prefix of the next request of the same conversation."""
    same = whole = 0
    for conversation in conversations(requests):
        texts = [prompt(body) for body in conversation]
        for before, after in zip(texts, texts[1:]):
            whole += len(before)
            same += common(before, after)
    return share(same, whole) if whole else 1.0


def prompt(body):
    """The prompt as text: tools first, as providers order it. Omits the last bracket, which the next request moves."""
    parts = [body.get("tools") or [], body.get("instructions") or ""]
    return json.dumps(parts) + json.dumps(body.get("messages") or body.get("input") or [])[:-1]


def common(before, after):
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def questions(requests):
    """Number of questions that the model asked the user: the maximum of all requests."""
    most = 0
    for body in requests:
        found = 0
        for item in body.get("messages") or body.get("input") or []:
            names = [call["function"]["name"] for call in item.get("tool_calls") or []]
            names += [item["name"]] if item.get("type") == "function_call" else []
            found += sum(name in ("ask_user", "question", "request_user_input") for name in names)
        most = max(most, found)
    return most
