package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Progress is a line that submit prints every second, and once more at the end.
type Progress struct {
	Total int `json:"total"`
	// Accepted documents are durably stored; Known of them had been accepted by an earlier submission whose answer was lost.
	Accepted int64 `json:"accepted"`
	Known    int64 `json:"known"`
	// Refused documents will never be taken.
	Refused int64 `json:"refused"`
	// Repeats counts submissions that had to be made again.
	Repeats int64 `json:"repeats"`
	Done    bool  `json:"done"`
}

type tally struct {
	accepted, known, refused, repeats atomic.Int64
}

func (t *tally) progress(total int, done bool) Progress {
	return Progress{total, t.accepted.Load(), t.known.Load(), t.refused.Load(), t.repeats.Load(), done}
}

// submit sends every file of a directory; its path in the directory is its id.
func submit(ctx context.Context, args []string) error {
	return forEach(ctx, args, submitFile)
}

// check asks for the state of every file of a directory until it is confirmed; accepted then counts the confirmed ones.
func check(ctx context.Context, args []string) error {
	return forEach(ctx, args, func(ctx context.Context, intake *intakeClient, _, path string, counts *tally) error {
		r, err := intake.confirmed(ctx, path)
		return counts.count(path, r, err)
	})
}

// deed is done for each file.
type deed func(ctx context.Context, intake *intakeClient, directory, path string, counts *tally) error

func forEach(ctx context.Context, args []string, do deed) error {
	flags := flag.NewFlagSet("submit", flag.ContinueOnError)
	directory := flags.String("directory", "/documents", "directory of the documents")
	url := flags.String("intake", "", "base URL of the intake, https://<flow>-intake.<namespace>.svc")
	flow := flags.String("flow", "documents", "name of the flow")
	source := flags.String("source", "/samples/submitter", "ce-source of the jobs")
	ca := flags.String("ca", "/etc/workpulling/ca/ca.crt", "certificates to trust")
	token := flags.String("token", "/var/run/secrets/workpulling.dev/token", "ServiceAccount token of audience workpulling.dev")
	connections := flags.Int("connections", 32, "documents that are submitted at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	intake, err := httpsIntake(*url, *flow, *source, *ca, *token, *connections)
	if err != nil {
		return err
	}
	paths, err := documents(*directory)
	if err != nil {
		return err
	}
	var counts tally
	stop := report(ctx, &counts, len(paths))
	err = doAll(ctx, do, intake, *directory, paths, *connections, &counts)
	stop()
	return err
}

// documents lists the files below a directory, relative to it. In a ConfigMap volume they are links into a hidden directory,
// which itself is passed over.
func documents(directory string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(entry.Name(), "..") {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return err
		}
		relative, err := filepath.Rel(directory, path)
		paths = append(paths, filepath.ToSlash(relative))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the documents: %w", err)
	}
	return paths, nil
}

// doAll returns when every document is accepted or refused, or ctx has ended.
func doAll(ctx context.Context, do deed, intake *intakeClient, directory string, paths []string, connections int, counts *tally) error {
	next := make(chan string)
	failed := make(chan error, len(paths))
	var senders sync.WaitGroup
	for range min(connections, len(paths)) {
		senders.Go(func() {
			for path := range next {
				if err := do(ctx, intake, directory, path, counts); err != nil {
					failed <- err
				}
			}
		})
	}
	for _, path := range paths {
		next <- path
	}
	close(next)
	senders.Wait()
	close(failed)
	if n := len(failed); n > 0 {
		return fmt.Errorf("%d of %d documents were not accepted; the first: %w", n, len(paths), <-failed)
	}
	return nil
}

func submitFile(ctx context.Context, intake *intakeClient, directory, path string, counts *tally) error {
	document, err := os.ReadFile(filepath.Join(directory, filepath.FromSlash(path)))
	if err != nil {
		return fmt.Errorf("reading a document: %w", err)
	}
	r, err := intake.submit(ctx, path, document)
	return counts.count(path, r, err)
}

func (t *tally) count(path string, r receipt, err error) error {
	t.repeats.Add(int64(r.repeats))
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		t.refused.Add(1)
		slog.Error("a document was refused", "id", path, "error", err)
	}
	if err != nil {
		return err
	}
	t.accepted.Add(1)
	if !r.New {
		t.known.Add(1)
	}
	return nil
}

// report prints the progress every second until stop is called, and then the end result.
func report(ctx context.Context, counts *tally, total int) (stop func()) {
	lines := json.NewEncoder(os.Stdout)
	ended, printed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(printed)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for done := false; !done; {
			select {
			case <-ended:
				done = true
			case <-tick.C:
			}
			if err := lines.Encode(counts.progress(total, done && ctx.Err() == nil)); err != nil {
				slog.Warn("printing the progress", "error", err)
			}
		}
	}()
	return func() { close(ended); <-printed }
}
