"""Counts the words of each job. It needs nothing but Python 3.

A job is a POST: its body is the payload, and the header Ce-Workpullingmessageid names it. The status of the answer says what becomes of it:

    200-299    done: the job is confirmed and never comes back
    422        it can never be done: the job becomes a dead letter
    any other  failed: the job comes back later, to another worker where there is one

The port is that of the environment variable PORT, because several workers share one machine when they run without a cluster. With a variable
RESULTS the app appends a line for each job to that file before it answers.
"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept: one job costs one round trip

    def do_POST(self):
        payload = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            words = len(payload.decode("utf-8").split())
        except UnicodeDecodeError:
            self.answer(422, {"Workpulling-Reason": "not UTF-8 text"})
            return
        record(self.headers.get("Ce-Workpullingmessageid"), words)
        self.answer(204)

    def answer(self, status, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass  # a line a job is too many


def record(message_id, words):
    """The effect of a job. It is written before the answer, so a confirmed job has it; a job that comes back has it twice."""
    path = os.environ.get("RESULTS")
    if path:
        line = json.dumps({"id": message_id, "words": words, "worker": os.environ.get("HOSTNAME")}) + "\n"
        with open(path, "a", encoding="utf-8") as results:
            results.write(line)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8080"))
    print(f"counting words on port {port}", flush=True)
    Server(("127.0.0.1", port), Handler).serve_forever()
