package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Submitter submits documents with the sample app, inside the cluster.
type Submitter struct {
	Kubectl *Kubectl
	// Namespace and Flow say where the jobs go.
	Namespace string
	Flow      string
	// From names for `kubectl exec` where the app runs, for example ["-n", "other", "pod/caller"]. Nil is the Deployment submitter of
	// config/samples in Namespace.
	From []string
	// Tokenless presents no token. The zero value presents the one that the pod has for Workpulling.
	Tokenless bool
	// Source is the ce-source of the jobs; a run uses one of its own.
	Source string
	// Connections is how many documents are submitted at once.
	Connections int
}

// Progress is what the submitter says every second.
type Progress struct {
	Total    int   `json:"total"`
	Accepted int64 `json:"accepted"`
	Known    int64 `json:"known"`
	Refused  int64 `json:"refused"`
	Repeats  int64 `json:"repeats"`
	Done     bool  `json:"done"`
}

func (s *Submitter) directory() string { return "/documents" + s.Source }

// Bring copies documents into the pod.
func (s *Submitter) Bring(ctx context.Context, documents []Document) error {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(Archive(writer, documents)) }()
	defer reader.Close()
	return s.Kubectl.Stream(ctx, reader, nil, s.app("receive", "--directory", s.directory())...)
}

// Submit submits what Bring brought, until each document is accepted or refused. A connection that breaks is not the end:
// the same ids are submitted again. It returns the last progress; an error where any document was refused.
func (s *Submitter) Submit(ctx context.Context, each func(Progress)) (Progress, error) {
	return s.run(ctx, "submit", each)
}

// Check asks the intake about each document until it is confirmed; accepted then counts the confirmed ones.
func (s *Submitter) Check(ctx context.Context, each func(Progress)) (Progress, error) {
	return s.run(ctx, "check", each)
}

func (s *Submitter) run(ctx context.Context, mode string, each func(Progress)) (Progress, error) {
	for {
		last, err := s.exec(ctx, mode, each)
		if last.Done || ctx.Err() != nil {
			return last, errors.Join(err, ctx.Err())
		}
		if command := (*CommandError)(nil); err != nil && !errors.As(err, &command) {
			return last, err
		}
	}
}

func (s *Submitter) exec(ctx context.Context, mode string, each func(Progress)) (last Progress, err error) {
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		args := s.app(mode, "--directory", s.directory(), "--intake", "https://"+s.Flow+"-intake."+s.Namespace+".svc",
			"--flow", s.Flow, "--source", s.Source, "--connections", strconv.Itoa(s.Connections))
		if s.Tokenless {
			args = append(args, "--token=")
		}
		err := s.Kubectl.Stream(ctx, nil, writer, args...)
		writer.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(reader)
	for lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			return last, fmt.Errorf("the submitter said %q: %w", lines.Text(), err)
		}
		each(last)
	}
	return last, errors.Join(lines.Err(), <-ended)
}

// app are the arguments of kubectl that run the sample app.
func (s *Submitter) app(args ...string) []string {
	from := s.From
	if from == nil {
		from = []string{"-n", s.Namespace, "deployment/submitter"}
	}
	return slices.Concat([]string{"exec", "-i"}, from, []string{"--", "/app"}, args)
}
