// Counts the words of each job, over gRPC.
//
// One stream brings deliveries and takes an outcome for each. What becomes of a job is in its text here, to show each outcome:
//
//     not UTF-8      rejected: it can never be done, and becomes a dead letter
//     fail …         the first attempt fails, and the job comes back after a back-off
//     later …        delayed by a second the first time, which counts as no attempt
//     slow …         takes half a second
//     any other      confirmed: it never comes back
//
// With a variable RESULTS the app appends a line for each job to that file before it answers.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const proto = process.env.APP_PROTO || path.join(__dirname, "../../runtime/protocol/app/v1/app.proto");
// Ids have 64 bits: as strings they stay whole.
const schema = loader.loadSync(proto, { keepCase: true, longs: String, enums: String, defaults: true });
const { Worker } = grpc.loadPackageDefinition(schema).workpulling.app.v1;

const jobs = 8; // at a time
const firstWait = 250; // milliseconds between two streams
const lastWait = 10_000;
const text = new TextDecoder("utf-8", { fatal: true });

// handle does one job and says how it ended.
async function handle(delivery) {
  let words;
  try {
    words = text.decode(delivery.payload).split(/\s+/).filter(Boolean);
  } catch {
    return { result: "RESULT_REJECT", reason: "not UTF-8 text" };
  }
  if (words[0] === "fail" && delivery.attempt === 1) {
    return { result: "RESULT_NACK", reason: "the first attempt fails" };
  }
  if (words[0] === "later" && !delivery.redelivered) {
    return { result: "RESULT_DELAY", retry_after_milliseconds: 1000 };
  }
  if (words[0] === "slow") {
    await sleep(500);
  }
  record(delivery.message_id, words.length);
  return { result: "RESULT_CONFIRMED" };
}

// record is the effect of a job. It is written before the answer, so a confirmed job has it; a job that comes back has it twice.
function record(id, words) {
  if (process.env.RESULTS) {
    const line = JSON.stringify({ id, words, worker: process.env.HOSTNAME, pid: process.pid }) + "\n";
    fs.appendFileSync(process.env.RESULTS, line);
  }
}

const client = new Worker("unix:" + process.env.WORKPULLING_SOCKET, grpc.credentials.createInsecure());
let stream; // undefined while there is none and nothing runs
let stopping = false;
let wait = firstWait;

// work works on one stream until it ends, and returns when its last job has ended.
async function work() {
  const running = new Set();
  let ready = [];

  // send sends all outcomes that are ready in one frame. Once the stream is over it does nothing.
  function send() {
    stream?.write({ outcomes: ready });
    ready = [];
  }

  async function answer(delivery) {
    // The text of an error might hold the payload, so its name is all that is said.
    const outcome = await handle(delivery).catch((error) => ({ result: "RESULT_NACK", reason: error.name }));
    if (ready.push({ delivery_id: delivery.id, ...outcome }) === 1) {
      setImmediate(send);
    }
  }

  stream = client.Work();
  // Nothing of an earlier stream runs: the end of this function waits for that.
  stream.write({ hello: { version: 1, max_deliveries: jobs, app: "words" }, earlier_ended: true });
  try {
    for await (const frame of stream) {
      wait = firstWait;
      for (const delivery of frame.deliveries) {
        const job = answer(delivery).finally(() => running.delete(job));
        running.add(job);
      }
      for (const refusal of frame.refusals) {
        console.error(`the outcome of delivery ${refusal.delivery_id} was refused: ${refusal.text}`);
      }
      // frame.cancellations are deliveries that took too long. They are answered when they end, as all others.
    }
  } finally {
    await Promise.all(running);
    stream = undefined;
  }
}

async function main() {
  while (!stopping) {
    await work().catch((error) => console.error(`the stream ended: ${error.message}`));
    if (!stopping) {
      await sleep(wait * (0.75 + Math.random() / 2));
      wait = Math.min(2 * wait, lastWait);
    }
  }
  client.close();
}

// stop takes no more jobs. The sidecar ends the stream when the last one is answered.
function stop() {
  stopping = true;
  if (!stream) {
    process.exit(0);
  }
  stream.write({ leaving: true });
}

process.on("SIGTERM", stop);
process.on("SIGINT", stop);
main();
