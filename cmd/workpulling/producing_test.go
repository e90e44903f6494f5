package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/workpulling/workpulling/internal/standalone"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// produced is how many jobs the producing app of the tests submits at each start, under the same keys.
const produced = 20

// produce is the producing app of the tests: it submits over the socket that it is told of, notes the socket for streams, and stays.
func produce(dir string) error {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", os.Getenv(standalone.EnvIntake))
	}}}
	for i := range produced {
		request, err := http.NewRequest(http.MethodPost, "http://run/v1/flows/jobs/jobs", strings.NewReader("payload"))
		if err != nil {
			return err
		}
		request.Header.Set("Idempotency-Key", strconv.Itoa(i))
		answer, err := client.Do(request)
		if err != nil {
			return err // the app is started again
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusOK {
			return fmt.Errorf("job %d: %s", i, answer.Status)
		}
	}
	info, err := os.Stat(os.Getenv("WORKPULLING_SOCKET"))
	if err == nil && info.Mode().Type() != os.ModeSocket {
		err = errors.New("no socket for streams")
	}
	text := strconv.Itoa(os.Getpid())
	if err != nil {
		text = err.Error()
	}
	if err := os.WriteFile(filepath.Join(dir, "produced"), []byte(text), 0o600); err != nil {
		return err
	}
	select {}
}

const producerTemplate = `spec:
  producer:
    template:
      spec:
        containers:
          - name: app
            image: example.test/app
`

func newProducingBench(t *testing.T) (*bench, []string) {
	b := newBench(t, strings.Replace(fmt.Sprintf(manifests, "Local"), "spec:\n", producerTemplate, 1))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return b, append(b.ourApp(appPosted), "--producer-command", "jobs=exec "+self,
		"--producer-env", "jobs="+asApp+"="+appProducing, "--producer-env", "jobs=RESULTS="+b.results)
}

// content is what is in a file of the results.
func (b *bench) content(name string) string {
	raw, _ := os.ReadFile(filepath.Join(b.results, name)) // not there yet is empty
	return string(raw)
}

// The producing app of a flow runs beside its workers: it submits over the socket that it is told of, is started again when it ends, and
// ends with the run.
func TestAProducingApp(t *testing.T) {
	b, arguments := newProducingBench(t)
	b.start(arguments...)
	transporttest.Eventually(t, "its jobs are handled", func() bool { return len(handled(b.results)) == produced && b.content("produced") != "" })
	pid, err := strconv.Atoi(b.content("produced"))
	if err != nil {
		t.Fatalf("the app says %q", b.content("produced"))
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "it runs again", func() bool { return b.content("produced") != strconv.Itoa(pid) })
	last, err := strconv.Atoi(b.content("produced"))
	if err != nil {
		t.Fatalf("the app says %q", b.content("produced"))
	}
	b.signal(syscall.SIGTERM)
	if code := b.wait(); code != 0 {
		t.Errorf("ended with %d", code)
	}
	b.allGone([]int{pid, last})
	if raw := b.content("handled"); strings.Count(raw, "\n") != produced {
		t.Errorf("%d jobs were handled, want each of %d once", strings.Count(raw, "\n"), produced)
	}
}

// Where the template has no command, the run says what is missing and goes on.
func TestAProducingAppWithoutACommand(t *testing.T) {
	b, _ := newProducingBench(t)
	b.start(b.ourApp(appPosted)...)
	id := b.submit("jobs", "1", "payload")
	b.confirmed("jobs", "%7Clocal%7C1")
	if got := handled(b.results); !slices.Equal(got, []string{id}) {
		t.Errorf("handled %q", got)
	}
	if !strings.Contains(b.said(), "--producer-command jobs=") {
		t.Errorf("the run said\n%s", b.said())
	}
	b.signal(syscall.SIGTERM)
	if code := b.wait(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// A guard that is killed is replaced, so that a run which is killed after it leaves no app behind, nor a guard.
func TestAKilledGuardLeavesNoAppBehind(t *testing.T) {
	b, arguments := newProducingBench(t)
	b.start(arguments...)
	transporttest.Eventually(t, "the apps run", func() bool { return len(b.pids()) == 4 && b.content("produced") != "" })
	first := b.guard()
	if first == 0 {
		t.Skip("this system does not say who is whose child")
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var second int
	transporttest.Eventually(t, "another guard is there", func() bool { second = b.guard(); return second != 0 && second != first })
	apps := b.pids()
	for _, pid := range apps {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			t.Errorf("app %d ended with the guard", pid)
		}
	}
	b.kill()
	b.allGone(append(apps, second))
}

// guard is the id of the guard process; 0 where there is none, or the system has no /proc.
func (b *bench) guard() int {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is fine
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it is gone
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(b.run.Process.Pid) && bytes.HasSuffix(line, []byte("\x00guard\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}
