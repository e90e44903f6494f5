package main

import (
	"context"
	"flag"
	"log/slog"
	"time"
)

// produce submits the files of a directory to the producer sidecar of its own pod, and looks for new ones every now and
// then. It keeps no state: after a restart it submits all again under the same ids, and the flow knows them.
func produce(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("produce", flag.ContinueOnError)
	directory := flags.String("directory", "/documents", "directory of the documents")
	socket := flags.String("socket", "/var/run/workpulling/intake.sock", "Unix socket of the producer sidecar")
	flow := flags.String("flow", "", "name of the flow")
	source := flags.String("source", "/samples/producer", "ce-source of the jobs")
	interval := flags.Duration("interval", 30*time.Second, "time between two looks at the directory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	intake := socketIntake(*socket, *flow, *source)
	tick := time.NewTicker(*interval)
	defer tick.Stop()
	submitted := map[string]bool{}
	for {
		if err := submitNew(ctx, intake, *directory, submitted); err != nil {
			slog.Error("not all documents were accepted; trying again later", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func submitNew(ctx context.Context, intake *intakeClient, directory string, submitted map[string]bool) error {
	paths, err := documents(directory)
	if err != nil {
		return err
	}
	var counts tally
	for _, path := range paths {
		if submitted[path] {
			continue
		}
		if err := submitFile(ctx, intake, directory, path, &counts); err != nil {
			return err
		}
		submitted[path] = true
	}
	if n := counts.accepted.Load(); n > 0 {
		slog.Info("documents submitted", "accepted", n, "known", counts.known.Load())
	}
	return nil
}
