package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"time"
)

// Headers of the handler contract: a job arrives as a CloudEvent in binary mode.
const (
	headerMessageID = "Ce-Workpullingmessageid"
	headerAttempt   = "Ce-Workpullingattempt"
	headerReason    = "Workpulling-Reason"
)

// socketVariable holds the Unix socket of the sidecar in an app that takes jobs from a stream.
const socketVariable = "WORKPULLING_SOCKET"

// worker handles jobs: it analyses the document and reports the execution to the store before it answers.
type worker struct {
	name string
	// atLeast makes short jobs long enough to be interrupted.
	atLeast time.Duration
	// failPercent answers 500 to that share of the executions, by chance.
	failPercent int
	store       *storeClient
}

func work(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("work", flag.ContinueOnError)
	listen := flags.String("listen", ":8080", "address of the handler")
	store := flags.String("store", "http://effects", "base URL of the store of effects")
	atLeast := flags.Duration("at-least", 0, "shortest time that a job takes")
	failPercent := flags.Int("fail-percent", 0, "share of executions that fail on purpose")
	stream := flags.Bool("stream", false, "take jobs from a stream to the sidecar instead of listening")
	if err := flags.Parse(args); err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the name of this worker: %w", err)
	}
	w := &worker{name: name, atLeast: *atLeast, failPercent: *failPercent, store: newStoreClient(*store)}
	if *stream {
		socket := os.Getenv(socketVariable)
		if socket == "" {
			return fmt.Errorf("the variable %s is not set: the pool of this app has no spec.handler.stream", socketVariable)
		}
		return w.take(ctx, socket)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", w.handle)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return serve(ctx, *listen, mux)
}

func (w *worker) handle(answer http.ResponseWriter, request *http.Request) {
	document, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(answer, "the document broke off", http.StatusBadRequest)
		return
	}
	attempt, _ := strconv.Atoi(request.Header.Get(headerAttempt))
	run := Execution{
		ID:        rand.Text(),
		MessageID: request.Header.Get(headerMessageID),
		EventID:   request.Header.Get("Ce-Id"),
		Source:    request.Header.Get("Ce-Source"),
		Worker:    w.name,
		Attempt:   attempt,
	}
	if run.MessageID == "" {
		http.Error(answer, headerMessageID+" is missing: this app expects jobs of a worker sidecar", http.StatusBadRequest)
		return
	}
	// The work goes on when the caller goes away: what has started is finished and reported.
	switch err := w.execute(context.WithoutCancel(request.Context()), run, document); {
	case errors.Is(err, errNotText):
		answer.Header().Set(headerReason, err.Error())
		http.Error(answer, err.Error(), http.StatusUnprocessableEntity)
	case errors.Is(err, errStoreUnavailable):
		slog.Warn("the store does not answer; the job will come back", "message", run.MessageID, "error", err)
		answer.Header().Set("Retry-After", "1")
		http.Error(answer, "the store does not answer", http.StatusServiceUnavailable)
	case err != nil:
		answer.Header().Set(headerReason, err.Error())
		http.Error(answer, err.Error(), http.StatusInternalServerError)
	default:
		answer.WriteHeader(http.StatusNoContent)
	}
}

func (w *worker) execute(ctx context.Context, run Execution, document []byte) error {
	enough := time.After(w.atLeast)
	if err := w.store.report(ctx, "start", run); err != nil {
		return err
	}
	analysis, err := analyse(document)
	if err != nil {
		return err
	}
	if mathrand.IntN(100) < w.failPercent {
		return errors.New("failed on purpose")
	}
	<-enough
	run.Analysis = &analysis
	return w.store.report(ctx, "finish", run)
}

// errStoreUnavailable says that an execution could not be reported; the job must run again.
var errStoreUnavailable = errors.New("the store of effects is not available")

// storeClient reports executions.
type storeClient struct {
	base   string
	client *http.Client
}

func newStoreClient(base string) *storeClient {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	return &storeClient{base: base, client: &http.Client{Timeout: 15 * time.Second, Transport: transport}}
}

func (s *storeClient) report(ctx context.Context, phase string, run Execution) error {
	body, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("encoding an execution: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/v1/executions/"+phase, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("addressing the store: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", errStoreUnavailable, err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return fmt.Errorf("%w: %w", errStoreUnavailable, err)
	}
	if answer.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%w: it answered %s", errStoreUnavailable, answer.Status)
	}
	return nil
}
