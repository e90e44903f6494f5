// Command app is the sample application of Workpulling: plain HTTP from the standard library, or gRPC with the generated stubs; no SDK.
//
//	app work      the handler of a worker: counts and hashes one document per job, which comes over HTTP or, with -stream, over gRPC
//	app store     a durable store of effects, shared by all workers and keyed by message id
//	app produce   a producing app beside the producer sidecar: submits the files of a directory through the Unix socket
//	app receive   reads a tar archive from standard input into a directory
//	app submit    submits the files of a directory to the intake over HTTPS, and says what became of each
//	app check     asks the intake about the files of a directory until each is confirmed
//	app wait      does nothing, for a pod that receive and submit are run in
//
// Invariants:
//   - The message id is the key of an effect: however often a job runs, its effect is there once, and every execution is counted.
//   - A store answers a finish only after it is on disk, so a confirmed job has its effect.
//   - A submitter keeps a document until the intake has answered 200 or 201 for it, and repeats it under the same id until then.
//   - Contents of documents are never logged.
package main
