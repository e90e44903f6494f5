package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// A volume without room is told at once, with what to do, while the run goes on; a worker makes room again.
func TestAFullVolume(t *testing.T) {
	b := newBench(t, fmt.Sprintf(manifests, "Local"))
	volume := filepath.Join(b.dir, "data")
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mountMemory(volume, 24<<20); err != nil {
		t.Skipf("a small volume cannot be made: %v", err)
	}
	t.Cleanup(func() {
		if b.run != nil {
			b.kill()
		}
		if err := unmount(volume); err != nil {
			t.Error(err)
		}
	})
	b.start(append(b.ourApp(appPosted), "--replicas", "jobs=1")...)
	for i := range 4 { // as many as the worker runs at a time
		b.submit("jobs", fmt.Sprintf("wait-%d", i), "wait")
	}
	payload := strings.Repeat("x", 200<<10)
	stored, turnedAway := 4, 0
	for i := 0; turnedAway < 3; i++ {
		began := time.Now()
		status, body, err := b.call(t.Context(), http.MethodPost, "jobs/jobs", strconv.Itoa(i), payload)
		switch took := time.Since(began); {
		case err != nil:
			t.Fatal(err)
		case status == http.StatusCreated && i < 1000:
			stored++
		case status != http.StatusServiceUnavailable || !bytes.Contains(body, []byte("/problems/queue-full")):
			t.Fatalf("job %d: %d %s", i, status, body)
		default:
			turnedAway++
			if took > 10*time.Second {
				t.Errorf("job %d was turned away after %s", i, took)
			}
		}
	}
	if stored < 10 {
		t.Fatalf("%d jobs filled the volume", stored)
	}
	transporttest.Eventually(t, "the run says so", func() bool { return strings.Contains(b.said(), "new jobs are refused until there is room") })
	if err := os.WriteFile(filepath.Join(b.results, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "what is stored is worked off", func() bool { return len(handled(b.results)) == stored })
	b.submit("jobs", "last", payload)
	transporttest.Eventually(t, "there is room again", func() bool { return len(handled(b.results)) == stored+1 })
	b.signal(syscall.SIGTERM)
	if code := b.wait(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}
