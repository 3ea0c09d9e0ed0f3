"""The scripted model of the recording: `model.py PORT`, OpenAI's chat completions on loopback.

The model's words and calls are written here. Everything else in the recording is real: pi runs the calls,
and the last answers quote what `recall` returned and count what the request holds. Usage is reported at four characters a token.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def bash(command):
    return ("bash", {"command": command})


def quoted(messages):
    """The first failure of batch 17, out of what the tool returned."""
    found = re.search(r"\d\d:\d\d:\d\d ERROR batch=17 [^\n]*?rolled back", text_of(messages[-1]))
    return f"The first failure, word for word:\n\n{found[0]}" if found else "That is not in what was folded."


def counted(messages):
    """How many attempts the tool results of this request show: all of them only with the whole history."""
    results = "\n".join(text_of(message) for message in messages if message["role"] == "tool")
    attempts = set(re.findall(r"ERROR batch=17 attempt=(\d+) ", results))
    return f"The log above shows {len(attempts)} attempts of batch 17."


# What the model does after each prompt, by the prompt's first words.
SCRIPT = {
    "Last night's import": [
        bash("cat import.log"),
        bash("grep -n ERROR import.log"),
        ("read", {"path": "importer.py"}),
        "Batch 17 waits for a row lock that the importer itself still holds: `write_batch` opens a second "
        "connection for the audit row before the first one commits. 300 retries of 7.3 s make 36 minutes.",
    ],
    "Fix it": [
        ("edit", {"path": "importer.py", "edits": [{
            "oldText": "        with connect(path) as audit:\n            audit.execute(",
            "newText": "        with database:\n            database.execute(",
        }]}),
        bash("python3 -m unittest -v test_importer 2>&1"),
        "Fixed: the audit row is written on the same connection. Both tests pass.",
    ],
    "Does any other batch": [
        bash("sed -n '440,520p' import.log"),
        bash("tail -n 120 import.log"),
        "No. Batches 18 to 30 take 4 seconds each and never wait.",
    ],
    "Which request was": [
        ("recall", {"query": "ERROR batch=17 attempt=1 request"}),
        quoted,
    ],
    "How often did": [counted],
}


def text_of(message):
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def answer(messages):
    newest = max(index for index, message in enumerate(messages) if message["role"] == "user")
    asked = text_of(messages[newest])
    steps = next((steps for start, steps in SCRIPT.items() if asked.startswith(start)), ["Noted."])
    since = messages[newest + 1:]
    step = steps[min(sum(message["role"] == "assistant" for message in since), len(steps) - 1)]
    if callable(step):
        step = step(messages)
    if isinstance(step, str):
        return {"role": "assistant", "content": step}
    name, arguments = step
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"call_{len(messages):03}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = answer(body["messages"])
        token_count = len(json.dumps(body["messages"])) // 4 + len(json.dumps(body.get("tools", []))) // 4
        usage = {"prompt_tokens": token_count, "completion_tokens": 40, "total_tokens": token_count + 40}
        end = "tool_calls" if said.get("tool_calls") else "stop"
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for part in (
            {"choices": [{"index": 0, "delta": said, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": end}]},
            {"choices": [], "usage": usage},
        ):
            self.wfile.write(f"data: {json.dumps(chunk | part)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Model).serve_forever()
