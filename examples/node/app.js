// Counts the words of each job. It needs nothing but Node.js.
//
// A job is a POST: its body is the payload, and the header ce-workpullingmessageid names it. An answer from 200 to 299 confirms the job, 422
// makes it a dead letter, and any other brings it back later. The port is that of the environment variable PORT, because several workers
// share one machine when they run without a cluster. With a variable RESULTS the app appends a line for each job to that file.
"use strict";

const fs = require("node:fs");
const http = require("node:http");

const port = Number(process.env.PORT || 8080);
const text = new TextDecoder("utf-8", { fatal: true });

// record is the effect of a job. It is written before the answer, so a confirmed job has it; a job that comes back has it twice.
function record(id, words) {
  if (process.env.RESULTS) {
    fs.appendFileSync(process.env.RESULTS, JSON.stringify({ id, words, worker: process.env.HOSTNAME }) + "\n");
  }
}

function handle(request, payload, response) {
  let words;
  try {
    words = text.decode(payload).split(/\s+/).filter(Boolean).length;
  } catch {
    response.writeHead(422, { "Workpulling-Reason": "not UTF-8 text" }).end();
    return;
  }
  record(request.headers["ce-workpullingmessageid"], words);
  response.writeHead(204).end();
}

const server = http.createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => handle(request, Buffer.concat(chunks), response));
});
server.listen(port, () => console.log(`counting words on port ${port}`));

// Without this, Node.js ends in the middle of an answer.
process.on("SIGTERM", () => server.close(() => process.exit(0)));
