package workpulling_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/workpulling/workpulling"
)

// childEnv makes the test binary a worker process; it holds the directory of the shared secret. addressEnv is where the producer listens.
const (
	childEnv   = "WORKPULLING_TEST_WORKER"
	addressEnv = "WORKPULLING_TEST_ADDRESS"
)

// childWorker is a worker process: it writes "begin ID" and "end ID" for each job, and drains at SIGTERM.
func childWorker(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var mu sync.Mutex
	say := func(word, id string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(word, id)
	}
	err := workpulling.RunWorker(ctx, func(_ context.Context, d workpulling.Delivery) error {
		say("begin", d.ID)
		<-time.After(2 * time.Millisecond) // a job that takes a moment
		say("end", d.ID)
		return nil
	}, workpulling.WorkerOptions{
		Flows:       []workpulling.Flow{{Name: "test", Address: os.Getenv(addressEnv)}},
		Identity:    workpulling.SharedSecret(dir, ""),
		Concurrency: 4,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a worker process and what it said.
type process struct {
	cmd *exec.Cmd

	mu           sync.Mutex
	begun, ended map[string]int
	read         chan struct{} // closed at the end of its output
}

func spawn(t *testing.T, dir, address string) *process {
	t.Helper()
	p := &process{begun: map[string]int{}, ended: map[string]int{}, read: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), childEnv+"="+dir, addressEnv+"="+address)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.follow(out)
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	return p
}

func (p *process) follow(out io.Reader) {
	defer close(p.read)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		word, id, ok := strings.Cut(lines.Text(), " ")
		if !ok {
			continue
		}
		p.mu.Lock()
		switch word {
		case "begin":
			p.begun[id]++
		case "end":
			p.ended[id]++
		}
		p.mu.Unlock()
	}
}

// end sends a signal and returns how the process ended.
func (p *process) end(signal os.Signal) error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	_ = p.cmd.Process.Signal(signal)
	<-p.read
	return p.cmd.Wait()
}

func (p *process) count() (begun, ended int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.begun), len(p.ended)
}

// Two worker processes over loopback, one of which is killed in the middle of its jobs, and the other one stopped at the end: every job is
// done, and only those run twice that the killed one had begun.
func TestKilledWorkerProcessLosesNothing(t *testing.T) {
	const jobs = 1500
	dir := filepath.Join(t.TempDir(), "run")
	options := quick(workpulling.Local(filepath.Join(t.TempDir(), "queue")))
	options.Listen, options.SharedSecret = "127.0.0.1:0", dir
	producer, stop := newProducer(t, options)
	victim, survivor := spawn(t, dir, producer.Address()), spawn(t, dir, producer.Address())
	waitFor(t, "two workers", func() bool { return stats(t, producer).Workers == 2 })
	var ids []string
	for i := range jobs {
		ids = append(ids, fmt.Sprint("job-", i))
	}
	store(t, producer, ids...)
	waitFor(t, "the victim is busy", func() bool { begun, _ := victim.count(); return begun > 20 })
	_ = victim.end(syscall.SIGKILL)
	waitFor(t, "all confirmed", func() bool { return stats(t, producer).Confirmed == jobs })
	if err := survivor.end(syscall.SIGTERM); err != nil {
		t.Errorf("the survivor did not drain: %v", err)
	}
	if err := stop(); err != nil {
		t.Errorf("the producer ended with %v", err)
	}
	for _, id := range ids {
		if victim.ended[id]+survivor.ended[id] == 0 {
			t.Errorf("%s was not done", id)
		}
		if survivor.ended[id] > 1 || survivor.ended[id] > 0 && victim.ended[id] > 0 && victim.begun[id] == 0 {
			t.Errorf("%s was done %d times by the survivor", id, survivor.ended[id])
		}
	}
	begun, ended := victim.count()
	t.Logf("the victim had begun %d jobs and done %d", begun, ended)
}

// A drained worker process leaves nothing to be redelivered.
func TestStoppedWorkerProcessRepeatsNothing(t *testing.T) {
	const jobs = 400
	dir := filepath.Join(t.TempDir(), "run")
	options := quick(workpulling.Memory())
	options.Listen, options.SharedSecret = "127.0.0.1:0", dir
	producer, _ := newProducer(t, options)
	first, second := spawn(t, dir, producer.Address()), spawn(t, dir, producer.Address())
	waitFor(t, "two workers", func() bool { return stats(t, producer).Workers == 2 })
	var ids []string
	for i := range jobs {
		ids = append(ids, fmt.Sprint("job-", i))
	}
	store(t, producer, ids...)
	waitFor(t, "the first is busy", func() bool { begun, _ := first.count(); return begun > 20 })
	if err := first.end(syscall.SIGTERM); err != nil {
		t.Errorf("the first did not drain: %v", err)
	}
	waitFor(t, "all confirmed", func() bool { return stats(t, producer).Confirmed == jobs })
	if err := second.end(syscall.SIGTERM); err != nil {
		t.Errorf("the second did not drain: %v", err)
	}
	for _, id := range ids {
		if n := first.ended[id] + second.ended[id]; n != 1 || first.begun[id] != first.ended[id] {
			t.Errorf("%s was begun %d and done %d times", id, first.begun[id]+second.begun[id], n)
		}
	}
}
