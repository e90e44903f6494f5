// Package workpulling runs workers and producers of reliable jobs inside a Go program, without a sidecar: the same protocol, machines and
// queues that the Kubernetes runtime is made of.
//
// # A short tour
//
// A [Producer] stores jobs in a queue and gives them to workers that ask for them. A [Worker] pulls as many as its window allows, calls a
// [Handler] for each, and says how it went. Both can live in one program:
//
//	producer, err := workpulling.NewProducer(workpulling.ProducerOptions{Flow: "invoices", Queue: workpulling.Local("/var/lib/invoices")})
//	…
//	go producer.Run(ctx)
//	go workpulling.RunWorker(ctx, handle, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}})
//	receipt, err := producer.Submit(ctx, workpulling.Job{ID: "invoice-17", Payload: body})
//	…
//	err = producer.WaitConfirmed(ctx, receipt)
//
// Or in several: a producer with ProducerOptions.Listen serves workers of other processes, which name its address in a [Flow]; a [Client],
// made by [Dial], submits jobs to a producer elsewhere, also to that of a flow in Kubernetes. What a process shows to prove who it is, is
// its [Identity]; outside of Kubernetes that is a [SharedSecret].
//
// # What a handler says
//
// A nil error confirms the job. [Reject] sends it to the dead letters, which a person looks at. [RetryAfter] asks for later, and costs no
// attempt. Any other error, a panic or a timeout is a failed attempt: the job comes again after a back-off, to another worker where one is
// free, until it has had all its attempts.
//
// # Invariants
//
//   - A job whose submission was answered is stored: durably by Local and PostgreSQL, until the process ends by Memory.
//   - A stored job runs until a handler confirms or rejects it, or its attempts are used up: at least once, and once where nothing fails.
//     A handler that must have its effect once writes it together with [Job.ID].
//   - The same ID submitted again within the deduplication window is the same job: it is stored once. With another body it is
//     [ErrConflict].
//   - One worker never runs two handlers for one ID at a time, and never more than Concurrency handlers.
//   - A worker that ends takes nothing with it: what runs is finished, what has not begun goes back, and what was lost in a crash goes to
//     another worker.
//   - No connection between processes is without TLS and a token: an Identity that is missing is an error, never a default.
//   - Every call ends: with its answer, its context, or [ErrUnavailable].
package workpulling
