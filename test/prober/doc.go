// Package prober loads flows, keeps books of what they promised and what became of it, and judges: it is what the crash tests and the
// chaos runner have in common.
//
// A Load submits jobs and asks after every accepted one until it is settled. An app (RunApp) handles jobs and writes each run into a
// ledger of its worker. Judge compares the two.
//
// Invariants:
//   - The judgement uses only what lies outside of Workpulling: the answers that submitters got, and the ledgers that the apps wrote.
//   - A line of a ledger is written before the sidecar gets an answer, and one of the books before the submitter goes on.
//   - Jobs, and how the app handles each attempt of one, follow from the seed alone.
package prober
