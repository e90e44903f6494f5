// Package storm lets a whole pool of workers start at once against a real API server, with real bound tokens and with no more rights than a
// pool and a producer have, and counts what that asks of the API server in the API server's own audit log.
//
// The sidecars are the real code in this one process, which two hundred processes would be too heavy for: each has its own files, its own
// client and connection to the API server and its own connection to the producer, as in a pod.
//
// The tests need the build tag integration.
package storm
