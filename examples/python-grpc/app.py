"""Counts the words of each job, over gRPC. It needs Python 3.9, grpcio and protobuf.

One stream brings deliveries and takes an outcome for each. What becomes of a job is in its text here, to show each outcome:

    not UTF-8      rejected: it can never be done, and becomes a dead letter
    fail …         the first attempt fails, and the job comes back after a back-off
    later …        delayed by a second the first time, which counts as no attempt
    slow …         takes half a second
    any other      confirmed: it never comes back

With a variable RESULTS the app appends a line for each job to that file before it answers.

app.binpb is the schema app.proto, compiled: `make proto` writes it. In a project of your own you may generate app_pb2 with grpcio-tools.
"""

import json
import os
import random
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import grpc
from google.protobuf import descriptor_pb2, message_factory

schema = descriptor_pb2.FileDescriptorSet.FromString((Path(__file__).parent / "app.binpb").read_bytes())
messages = message_factory.GetMessages(schema.file)
AppFrame, SidecarFrame, Hello, Outcome = (
    messages["workpulling.app.v1." + name] for name in ("AppFrame", "SidecarFrame", "Hello", "Outcome")
)

JOBS = 8  # at a time
FIRST_WAIT, LAST_WAIT = 0.25, 10  # seconds between two streams


def handle(delivery):
    """Does one job and says how it ended."""
    try:
        words = delivery.payload.decode("utf-8").split()
    except UnicodeDecodeError:
        return Outcome(result="RESULT_REJECT", reason="not UTF-8 text")
    kind = words[0] if words else ""
    if kind == "fail" and delivery.attempt == 1:
        return Outcome(result="RESULT_NACK", reason="the first attempt fails")
    if kind == "later" and not delivery.redelivered:
        return Outcome(result="RESULT_DELAY", retry_after_milliseconds=1000)
    if kind == "slow":
        time.sleep(0.5)
    record(delivery.message_id, len(words))
    return Outcome(result="RESULT_CONFIRMED")


def record(message_id, words):
    """The effect of a job. It is written before the answer, so a confirmed job has it; a job that comes back has it twice."""
    path = os.environ.get("RESULTS")
    if path:
        line = json.dumps({"id": message_id, "words": words, "worker": os.environ.get("HOSTNAME"), "pid": os.getpid()}) + "\n"
        with open(path, "a", encoding="utf-8") as results:
            results.write(line)


def answer(delivery, outgoing):
    """Runs in a thread of its own for each delivery."""
    try:
        outcome = handle(delivery)
    except Exception as error:  # a job must not end the app
        outcome = Outcome(result="RESULT_NACK", reason=type(error).__name__)  # its text might hold the payload
    outcome.delivery_id = delivery.id
    outgoing.put(outcome)


def frames(outgoing):
    """What the app sends: hello, and then each outcome that is ready. None in the queue asks to leave."""
    # Nothing of an earlier stream runs: work() waits for that.
    yield AppFrame(hello=Hello(version=1, max_deliveries=JOBS, app="words"), earlier_ended=True)
    while True:
        ready = [outgoing.get()]
        while not outgoing.empty():
            ready.append(outgoing.get())
        yield AppFrame(outcomes=[outcome for outcome in ready if outcome is not None], leaving=None in ready)


class Worker:
    def __init__(self, socket):
        self.target = "unix:" + socket
        self.wait = FIRST_WAIT
        self.outgoing = None  # while there is a stream: what is to be sent on it
        self.stopping = False

    def run(self):
        while not self.stopping:
            try:
                self.work()
            except grpc.RpcError as error:
                print(f"the stream ended: {error.code().name}: {error.details()}", file=sys.stderr, flush=True)
            if not self.stopping:
                time.sleep(self.wait * random.uniform(0.75, 1.25))
                self.wait = min(2 * self.wait, LAST_WAIT)

    def work(self):
        """Works on one stream until it ends, and returns when its last job has ended."""
        self.outgoing = outgoing = SimpleQueue()
        try:
            with grpc.insecure_channel(self.target) as channel, ThreadPoolExecutor(JOBS) as pool:
                open_stream = channel.stream_stream(
                    "/workpulling.app.v1.Worker/Work",
                    request_serializer=AppFrame.SerializeToString,
                    response_deserializer=SidecarFrame.FromString,
                )
                for frame in open_stream(frames(outgoing)):
                    self.wait = FIRST_WAIT
                    for delivery in frame.deliveries:
                        pool.submit(answer, delivery, outgoing)
                    for refusal in frame.refusals:
                        print(f"the outcome of delivery {refusal.delivery_id} was refused: {refusal.text}", file=sys.stderr, flush=True)
                    # frame.cancellations are deliveries that took too long. A thread cannot be stopped; its answer comes late.
        finally:
            self.outgoing = None
            outgoing.put(None)  # ends the thread that waits for outcomes

    def stop(self, *_):
        """Takes no more jobs. The sidecar ends the stream when the last one is answered. It may interrupt run anywhere."""
        self.stopping = True
        if self.outgoing is None:
            sys.exit(0)
        self.outgoing.put(None)


if __name__ == "__main__":
    worker = Worker(os.environ["WORKPULLING_SOCKET"])
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, worker.stop)
    worker.run()
