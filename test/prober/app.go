package prober

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// Environment of the app: EnvApp is where it listens, EnvLedger its file.
const (
	EnvApp    = "WORKPULLING_PROBER_APP"
	EnvLedger = "WORKPULLING_PROBER_LEDGER"
	EnvSeed   = "WORKPULLING_PROBER_SEED"
	// EnvTakes is how long most jobs take on average, 6ms without it.
	EnvTakes = "WORKPULLING_PROBER_TAKES"
)

// usuallyTakes is how long most jobs take on average.
const usuallyTakes = 6 * time.Millisecond

// AppPort is where the app listens, at its pod's address.
const AppPort = 8080

// HandlerTimeout is the pool's; a job that hangs takes longer.
const HandlerTimeout = 4 * time.Second

// conduct is how the app handles one attempt of one job.
type conduct struct {
	takes  time.Duration
	status int
}

// conductOf follows from the seed, the mean of the times that most jobs take, the job and the attempt alone. A poisoned job always fails.
func conductOf(seed uint64, mean time.Duration, messageID string, attempt int) conduct {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%d", messageID, attempt)
	random := mathrand.New(mathrand.NewPCG(seed, hash.Sum64()))
	takes := time.Duration(random.ExpFloat64() * float64(mean))
	if Poisoned(messageID) {
		return conduct{takes: takes, status: http.StatusInternalServerError}
	}
	switch dice := random.Float64(); {
	case dice < 0.001:
		return conduct{takes: HandlerTimeout + time.Duration(random.Int64N(int64(4*time.Second))), status: http.StatusNoContent}
	case dice < 0.031:
		return conduct{takes: time.Duration(random.Int64N(int64(3 * time.Second))), status: http.StatusNoContent}
	case dice < 0.041:
		return conduct{takes: takes, status: http.StatusInternalServerError}
	}
	return conduct{takes: takes, status: http.StatusNoContent}
}

// app handles jobs and writes down each run.
type app struct {
	seed   uint64
	takes  time.Duration
	boot   string
	runs   atomic.Uint64
	ledger *Journal
}

// RunApp is the whole life of an app's process. It returns only on failure.
func RunApp() error {
	seed, err := strconv.ParseUint(os.Getenv(EnvSeed), 10, 64)
	if err != nil {
		return fmt.Errorf("reading %s: %w", EnvSeed, err)
	}
	file, err := OpenJournal(os.Getenv(EnvLedger))
	if err != nil {
		return err
	}
	takes := usuallyTakes
	if text := os.Getenv(EnvTakes); text != "" {
		if takes, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("reading %s: %w", EnvTakes, err)
		}
	}
	a := &app{seed: seed, takes: takes, boot: rand.Text(), ledger: file}
	server := &http.Server{Addr: os.Getenv(EnvApp), Handler: a, ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

func (a *app) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the sidecar was killed while it sent
	}
	id := request.Header.Get("Ce-Workpullingmessageid")
	attempt, err := strconv.Atoi(request.Header.Get("Ce-Workpullingattempt"))
	if id == "" || err != nil {
		http.Error(answer, "this is no job", http.StatusBadRequest)
		return
	}
	sum := sha256.Sum256(body)
	conduct, run := conductOf(a.seed, a.takes, id, attempt), a.runs.Add(1)
	if run%400 == 0 { // not by the attempt, which this does not change
		conduct.status = http.StatusServiceUnavailable
		answer.Header().Set("Retry-After", "1")
	}
	start := Entry{Boot: a.boot, Run: run, MessageID: id, Attempt: attempt, SHA256: hex.EncodeToString(sum[:])}
	// What has started goes on when the sidecar goes away, as apps do that are not told.
	if err := a.run(context.WithoutCancel(request.Context()), start, conduct); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) // an app without a ledger proves nothing
	}
	answer.WriteHeader(conduct.status)
}

// run is one run: its start and its end are in the ledger before the sidecar gets an answer.
func (a *app) run(ctx context.Context, start Entry, conduct conduct) error {
	if err := a.ledger.write(start); err != nil {
		return err
	}
	timer := time.NewTimer(conduct.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return a.ledger.write(Entry{Boot: start.Boot, Run: start.Run, Status: conduct.status})
}
