package ours

import "time"

// Backend is a kind of WorkQueue.
type Backend string

const (
	Memory     Backend = "memory"
	Local      Backend = "local"
	PostgreSQL Backend = "postgres"
)

// deduplication is the default of a flow.
const deduplication = 600 * time.Second

const flowUID = "bench"

func (b Backend) settings() string {
	switch b {
	case Local:
		return "Local queue: every job fsynced before Stored"
	case PostgreSQL:
		return "PostgreSQL queue: every job committed before Stored"
	default:
		return "Memory queue"
	}
}
