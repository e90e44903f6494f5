package main

import (
	"encoding/json"
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

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// streamedSamples are the apps that take their jobs over gRPC. Find is the directory of an interpreter that has what the app needs; it
// skips the test where there is none.
var streamedSamples = []struct {
	dir     string
	command []string
	find    func(t *testing.T, dir string) string
}{
	{"../../examples/python-grpc", []string{"python3", "-u", "app.py"}, pythonWithGRPC},
	{"../../examples/node-grpc", []string{"node", "app.js"}, nodeWithModules},
}

// forStreamedSamples runs a test with each sample whose interpreter and libraries are there. Environ makes it the interpreter that is
// found first.
func forStreamedSamples(t *testing.T, test func(t *testing.T, dir string, command, environ []string)) {
	t.Helper()
	for _, sample := range streamedSamples {
		t.Run(filepath.Base(sample.dir), func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.Abs(sample.dir)
			if err != nil {
				t.Fatal(err)
			}
			interpreters := sample.find(t, dir)
			command := append([]string{filepath.Join(interpreters, sample.command[0])}, sample.command[1:]...)
			test(t, dir, command, []string{"PATH=" + interpreters + ":" + os.Getenv("PATH")})
		})
	}
}

// pythonWithGRPC looks further than the first python3, which may be one without Debian's modules.
func pythonWithGRPC(t *testing.T, _ string) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if exec.Command(filepath.Join(dir, "python3"), "-c", "import grpc, google.protobuf").Run() == nil {
			return dir
		}
	}
	t.Skip("no python3 has the modules grpc and google.protobuf: hack/setup.sh apps installs them")
	return ""
}

func nodeWithModules(t *testing.T, dir string) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil || missing(filepath.Join(dir, "node_modules", "@grpc", "grpc-js")) {
		t.Skipf("node or the modules of %s are not installed: hack/setup.sh apps installs them", dir)
	}
	return filepath.Dir(node)
}

// One app is killed and one told to stop while 300 jobs come in: all of them are done, but the one that can never be.
func TestStreamedSamples(t *testing.T) {
	const jobs = 300
	kinds := []string{"word", "word", "fail", "word", "later", "word", "word", "slow", "word", "word"}
	forStreamedSamples(t, func(t *testing.T, dir string, _, environ []string) {
		b := newBench(t, "")
		b.manifests, b.environ = filepath.Join(dir, "flow.yaml"), environ
		results := filepath.Join(b.results, "words")
		b.start("--exit-when-empty=5s", "-o", "json", "--env", "words=RESULTS="+results)

		ids := make([]string, jobs)
		var next atomic.Int64
		var submitters sync.WaitGroup
		for range 4 {
			submitters.Go(func() {
				for i := int(next.Add(1)) - 1; i < jobs; i = int(next.Add(1)) - 1 {
					ids[i] = b.submit("words", strconv.Itoa(i+1), kinds[i%len(kinds)]+strings.Repeat(" word", i))
				}
			})
		}
		transporttest.Eventually(t, "50 jobs are done", func() bool { return len(workersOf(results)) >= 50 })
		killed := workersOf(results)[49]
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		var stopped int
		transporttest.Eventually(t, "another app has done a job after 100", func() bool {
			pids := workersOf(results)
			stopped = pids[len(pids)-1]
			return len(pids) > 100 && stopped != killed
		})
		if err := syscall.Kill(stopped, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		submitters.Wait()
		b.submit("words", "bad", "\xff\xfe")

		if code := b.wait(); code != exitDeadLetters {
			t.Fatalf("ended with %d, want %d:\n%s", code, exitDeadLetters, b.said())
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(ids)), counted(t, results)); diff != "" {
			t.Errorf("jobs (-stored +counted):\n%s", diff)
		}
		for _, want := range []string{"the app was ended by signal: killed", "the app ended; starting it again"} {
			if !strings.Contains(b.said(), want) {
				t.Errorf("the run did not say %q:\n%s", want, b.said())
			}
		}
	})
}

// workersOf are the processes that have done a job each, in the order of the file; none while it is not there.
func workersOf(results string) (pids []int) {
	raw, _ := os.ReadFile(results)
	for line := range strings.Lines(string(raw)) {
		var result struct{ PID int }
		if err := json.Unmarshal([]byte(line), &result); err == nil { // the last line may be half there
			pids = append(pids, result.PID)
		}
	}
	return pids
}

// The sidecar goes away under the app and comes back: the app opens a new stream once its job is over. Told to stop, it ends what it runs.
func TestStreamedSamplesComeBack(t *testing.T) {
	forStreamedSamples(t, func(t *testing.T, dir string, command, environ []string) {
		base, err := os.MkdirTemp("", "wp") //nolint:usetesting // t.TempDir is too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)
		path := filepath.Join(base, "s")
		app := exec.Command(command[0], command[1:]...)
		app.Dir, app.Stderr = dir, os.Stderr
		app.Env = append(append(os.Environ(), environ...), "WORKPULLING_SOCKET="+path)
		if err := app.Start(); err != nil { // before there is a socket
			t.Fatal(err)
		}
		defer func() { _ = app.Process.Kill() }() // it may be gone

		first := newSidecar(t, path)
		lost := first.begin("slow", 1)
		first.confirm("word", 2) // it comes after the slow one, so that one runs
		first.stop()
		if result := <-lost; result.Outcome != protocol.Nacked {
			t.Errorf("the job of the stream that broke ended with %+v", result)
		}

		second := newSidecar(t, path)
		running := second.begin("slow", 3)
		second.confirm("word", 4)
		if !second.earlierEnded.Load() {
			t.Error("the app did not say that nothing of its earlier stream runs")
		}
		if err := app.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if result := <-running; result.Outcome != protocol.Confirmed {
			t.Errorf("the job that ran at SIGTERM ended with %+v", result)
		}
		if err := app.Wait(); err != nil {
			t.Errorf("the app: %v", err)
		}
	})
}
