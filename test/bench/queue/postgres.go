package main

import (
	"context"

	"github.com/workpulling/workpulling/runtime/queue/postgres"
)

// openPostgres takes the place's path for the flow's UID, so that every contestant starts empty and finds its jobs again.
func openPostgres(url string) func(dir string) (contestant, error) {
	return func(dir string) (contestant, error) {
		q, err := postgres.New(context.Background(), postgres.Options{ConnString: url, FlowUID: dir})
		if err != nil {
			return nil, err
		}
		return &ours{queue: q}, nil
	}
}
