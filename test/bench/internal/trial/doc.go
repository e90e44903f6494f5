// Package trial runs one system once: it starts the system's processes, drives load through them, measures, and judges what was handled.
//
// Invariants:
//   - Every system gets the same jobs, the same driver, the same bound of jobs between acceptance and handling, and the same account of what
//     was handled. None of it depends on who the system is.
//   - A run in which a job is lost, handled twice or handled with other bytes fails, and has no figures.
//   - Latency counts from the time at which the schedule wanted the job sent, so that a system which stalls cannot hide it.
//   - CPU is that of all processes of the system, its servers included.
//   - Whatever a trial starts has ended when it returns; a child whose parent died ends by itself.
package trial
