package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/internal/standalone"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// manifests are a flow and a pool of the test's app, whose command the manifest does not know.
const manifests = `apiVersion: workpulling.dev/v1alpha1
kind: WorkPullingFlow
metadata:
  name: jobs
spec:
  queue:
    type: %s
---
apiVersion: workpulling.dev/v1alpha1
kind: WorkerPool
metadata:
  name: jobs
spec:
  flows: [jobs]
  replicas: 3
  concurrency: 4
  drain: {timeoutSeconds: 60}
  template:
    spec:
      containers:
        - name: app
          image: example.test/app
`

// bench is one data directory, and one run in it at a time.
type bench struct {
	t                       *testing.T
	dir, results, manifests string
	environ                 []string // on top of the test's
	client                  *http.Client
	run                     *exec.Cmd
	output                  *os.File
}

func newBench(t *testing.T, manifest string) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "wp") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: dir, results: filepath.Join(dir, "results"), manifests: filepath.Join(dir, "m.yaml")}
	if err := errors.Join(os.Mkdir(b.results, 0o700), os.WriteFile(b.manifests, []byte(manifest), 0o600)); err != nil {
		t.Fatal(err)
	}
	b.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "data", "run", "intake.sock"))
		},
	}}
	t.Cleanup(func() {
		if b.run != nil {
			b.kill()
		}
		os.RemoveAll(dir)
	})
	return b
}

// ourApp makes the test's program the app of the pool.
func (b *bench) ourApp(kind string) []string {
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	return []string{"--command", "jobs=exec " + self, "--env", "jobs=" + asApp + "=" + kind, "--env", "jobs=RESULTS=" + b.results}
}

// start starts the program in a process group of its own.
func (b *bench) start(arguments ...string) {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	if b.output, err = os.CreateTemp(b.dir, "output"); err != nil {
		b.t.Fatal(err)
	}
	arguments = append([]string{"run", "-f", b.manifests, "--data", filepath.Join(b.dir, "data"), "--listen", "127.0.0.1:0"}, arguments...)
	b.run = exec.Command(self, arguments...)
	b.run.Env = append(append(os.Environ(), asWorkpulling+"=1"), b.environ...)
	b.run.Stdout, b.run.Stderr = b.output, b.output
	b.run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.run.Start(); err != nil {
		b.t.Fatal(err)
	}
}

// kill kills the process group of the program, which its apps are not in.
func (b *bench) kill() {
	_ = syscall.Kill(-b.run.Process.Pid, syscall.SIGKILL) // it may be gone
	b.wait()
}

// signal sends a signal to the program alone.
func (b *bench) signal(s os.Signal) {
	b.t.Helper()
	if err := b.run.Process.Signal(s); err != nil {
		b.t.Fatal(err)
	}
}

// wait returns the exit code.
func (b *bench) wait() int {
	_ = b.run.Wait() // the code says it
	code := b.run.ProcessState.ExitCode()
	b.run = nil
	if raw, _ := os.ReadFile(b.output.Name()); b.t.Failed() {
		b.t.Logf("the run said:\n%s", raw)
	}
	b.output.Close()
	return code
}

// said is all that the run has printed.
func (b *bench) said() string {
	raw, err := os.ReadFile(b.output.Name())
	if err != nil {
		b.t.Fatal(err)
	}
	return string(raw)
}

// call asks the intake; an error is one of the connection.
func (b *bench) call(ctx context.Context, method, path, key, payload string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://run/v1/flows/"+path, strings.NewReader(payload))
	if err != nil {
		return 0, nil, err
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	answer, err := b.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}

// submit repeats one job until it is stored, whatever happens to the run, and returns its message id.
func (b *bench) submit(flow, key, payload string) (id string) {
	b.t.Helper()
	transporttest.Eventually(b.t, "job "+key+" is stored", func() bool {
		status, body, err := b.call(b.t.Context(), http.MethodPost, flow+"/jobs", key, payload)
		if err != nil || status != http.StatusOK && status != http.StatusCreated && status != http.StatusAccepted {
			return false
		}
		var receipt struct{ ID string }
		if err := json.Unmarshal(body, &receipt); err != nil {
			b.t.Fatal(err)
		}
		id = receipt.ID
		return true
	})
	return id
}

// confirmed waits until a job is.
func (b *bench) confirmed(flow, location string) {
	b.t.Helper()
	transporttest.Eventually(b.t, location+" is confirmed", func() bool {
		status, body, err := b.call(b.t.Context(), http.MethodGet, flow+"/jobs/"+location, "", "")
		return err == nil && status == http.StatusOK && strings.Contains(string(body), `"confirmed"`)
	})
}

// pids are the apps that have ever been started, as far as no later one has replaced them.
func (b *bench) pids() (pids []int) {
	files, _ := filepath.Glob(filepath.Join(b.results, "pid-*")) // the pattern is fine
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		if pid, err := strconv.Atoi(string(raw)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (b *bench) allGone(pids []int) {
	b.t.Helper()
	transporttest.Eventually(b.t, "all apps are gone", func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	})
}

func TestNoJobIsLost(t *testing.T) {
	t.Run("Local", func(t *testing.T) { losesNothing(newBench(t, fmt.Sprintf(manifests, "Local"))) })
	t.Run("PostgreSQL", func(t *testing.T) {
		server := postgrestest.Start(t)
		b := newBench(t, fmt.Sprintf(manifests, "PostgreSQL\n    postgreSQL: {connectionSecretRef: {name: elsewhere}}"))
		b.environ = []string{"DATABASE_URL=" + server.URL(server.Database(t))}
		losesNothing(b, "--dsn", "jobs=env:DATABASE_URL")
	})
}

// losesNothing kills an app, then the whole run, while 500 jobs come in: every job that was stored is handled and confirmed.
func losesNothing(b *bench, arguments ...string) {
	const jobs = 500
	t := b.t
	arguments = append(b.ourApp(appPosted), arguments...)
	b.start(arguments...)
	ids := make([]string, jobs)
	var next atomic.Int64
	var submitters sync.WaitGroup
	for range 8 {
		submitters.Go(func() {
			for i := next.Add(1) - 1; i < jobs; i = next.Add(1) - 1 {
				ids[i] = b.submit("jobs", strconv.Itoa(int(i)), "payload")
			}
		})
	}
	transporttest.Eventually(t, "100 jobs are handled", func() bool { return len(handled(b.results)) >= 100 })
	victim := b.pids()[0]
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "another app is in its place", func() bool { return len(b.pids()) == 3 && !slices.Contains(b.pids(), victim) })
	transporttest.Eventually(t, "200 jobs are handled", func() bool { return len(handled(b.results)) >= 200 })
	before := b.pids()
	b.kill()
	b.allGone(before)

	b.start(arguments...)
	submitters.Wait()
	for i := range jobs {
		b.confirmed("jobs", "%7Clocal%7C"+strconv.Itoa(i))
	}
	slices.Sort(ids)
	if diff := cmp.Diff(ids, handled(b.results)); diff != "" {
		t.Errorf("stored jobs and handled ones (-stored +handled):\n%s", diff)
	}
	last := b.pids()
	b.signal(syscall.SIGTERM)
	if code := b.wait(); code != 0 {
		t.Errorf("ended with %d", code)
	}
	b.allGone(last)

	// What is there is confirmed, so a run that is to end when nothing is left does so.
	b.start(append(arguments, "--exit-when-empty=100ms")...)
	if code := b.wait(); code != 0 {
		t.Errorf("with nothing left it ended with %d", code)
	}
}

// The first signal lets a running job finish; the job is confirmed and does not come back.
func TestASignalDrains(t *testing.T) {
	b := newBench(t, fmt.Sprintf(manifests, "Local"))
	b.start(b.ourApp(appPosted)...)
	id := b.submit("jobs", "1", "wait")
	transporttest.Eventually(t, "the job runs", func() bool { return !missing(filepath.Join(b.results, "waiting")) })
	b.signal(syscall.SIGINT)
	transporttest.Eventually(t, "the run drains", func() bool { return strings.Contains(b.said(), "Stopping") })
	if err := os.WriteFile(filepath.Join(b.results, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := b.wait(); code != 0 {
		t.Errorf("ended with %d", code)
	}
	b.start(append(b.ourApp(appPosted), "--exit-when-empty=100ms", "-o", "json")...)
	if code := b.wait(); code != 0 {
		t.Errorf("the next run ended with %d", code)
	}
	raw, err := os.ReadFile(filepath.Join(b.results, "handled"))
	if err != nil || string(raw) != id+"\n" {
		t.Errorf("handled %q, %v, want %q once", raw, err, id)
	}
}

// An app that opens streams finds the socket of its worker, and a program the socket for producer streams.
func TestAnAppWithStreams(t *testing.T) {
	b := newBench(t, strings.Replace(fmt.Sprintf(manifests, "Memory"), "  concurrency: 4\n", "  concurrency: 4\n  handler: {stream: {timeoutSeconds: 60}}\n", 1))
	b.start(b.ourApp(appStreamed)...)
	var ids []string
	for i := range 20 {
		ids = append(ids, b.submit("jobs", strconv.Itoa(i), "payload"))
	}
	for i := range 20 {
		b.confirmed("jobs", "%7Clocal%7C"+strconv.Itoa(i))
	}
	slices.Sort(ids)
	if diff := cmp.Diff(ids, handled(b.results)); diff != "" {
		t.Errorf("jobs (-stored +handled):\n%s", diff)
	}
	if missing(filepath.Join(b.dir, "data", "run", "flows", "jobs", "producer.sock")) {
		t.Error("the flow has no socket for producer streams")
	}
	b.signal(syscall.SIGTERM)
	if code := b.wait(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// The second signal ends the run at once, and its apps with it.
func TestASecondSignalEndsAtOnce(t *testing.T) {
	b := newBench(t, fmt.Sprintf(manifests, "Memory"))
	b.start(append(b.ourApp(appPosted), "--replicas", "jobs=1")...)
	b.submit("jobs", "1", "wait")
	transporttest.Eventually(t, "the job runs", func() bool { return !missing(filepath.Join(b.results, "waiting")) })
	pids := b.pids()
	b.signal(syscall.SIGTERM)
	transporttest.Eventually(t, "the run drains", func() bool { return strings.Contains(b.said(), "Stopping") })
	b.signal(syscall.SIGTERM)
	if code := b.wait(); code != exitSignal {
		t.Errorf("ended with %d, want %d", code, exitSignal)
	}
	b.allGone(pids)
}

// A data directory has one run at a time, and the second says which is in its way.
func TestOneRunAtATime(t *testing.T) {
	b := newBench(t, fmt.Sprintf(manifests, "Memory"))
	b.start(b.ourApp(appPosted)...)
	b.submit("jobs", "1", "payload")
	first := b.run
	b.start(b.ourApp(appPosted)...)
	if said, code := b.said, b.run; code.Wait() == nil || !strings.Contains(said(), "another run uses the data directory") {
		t.Errorf("the second run said\n%s", said())
	}
	b.run = first
	b.signal(syscall.SIGTERM)
	if code := b.wait(); code != 0 {
		t.Errorf("the first run ended with %d", code)
	}
}

// A run inside of another program leaves nothing behind in it: goleak looks after this test.
func TestARunInProcess(t *testing.T) {
	b := newBench(t, fmt.Sprintf(manifests, "Memory"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asWorkpulling, "1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- standalone.Run(ctx, standalone.Options{
			Manifests: []string{b.manifests}, Data: filepath.Join(b.dir, "data"), Listen: standalone.NoListen,
			Commands: map[string]string{"jobs": "exec " + self}, Guard: []string{self, "guard"}, Environ: os.Environ(),
			Environment: map[string][]string{"jobs": {asApp + "=" + appPosted, "RESULTS=" + b.results}},
			Screen:      &standalone.Screen{Out: t.Output()},
		})
	}()
	id := b.submit("jobs", "1", "payload")
	b.confirmed("jobs", "%7Clocal%7C1")
	if got := handled(b.results); !slices.Equal(got, []string{id}) {
		t.Errorf("handled %q, want %q", got, id)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
