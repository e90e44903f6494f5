package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The samples that run without a cluster do: their handlers confirm jobs, and send what they can never handle to the dead letters.
func TestSamples(t *testing.T) {
	for _, c := range []struct{ interpreter, dir string }{
		{"python3", "../../config/samples/standalone"},
		{"node", "../../examples/node"},
	} {
		t.Run(c.interpreter, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.interpreter); err != nil {
				t.Skipf("%s is not installed: hack/setup.sh apps installs it", c.interpreter)
			}
			b := newBench(t, "")
			dir, err := filepath.Abs(c.dir)
			if err != nil {
				t.Fatal(err)
			}
			b.manifests = dir
			results := filepath.Join(b.results, "words")
			b.start("--exit-when-empty=5s", "-o", "json", "--env", "words=RESULTS="+results)
			var ids []string
			for i := range 20 {
				ids = append(ids, b.submit("words", strconv.Itoa(i+1), strings.Repeat("word ", i+1)))
			}
			if code := b.wait(); code != 0 {
				t.Fatalf("ended with %d:\n%s", code, b.said())
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(ids)), counted(t, results)); diff != "" {
				t.Errorf("jobs (-stored +counted):\n%s", diff)
			}

			b.start("--exit-when-empty=5s")
			b.submit("words", "bad", "\xff\xfe")
			if code := b.wait(); code != exitDeadLetters {
				t.Errorf("with a dead letter it ended with %d, want %d:\n%s", code, exitDeadLetters, b.said())
			}
		})
	}
}

// counted are the ids of the jobs whose words were counted rightly, each once.
func counted(t *testing.T, file string) (ids []string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var result struct {
			ID, Worker string
			Words      int
		}
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, number, _ := strings.Cut(strings.TrimPrefix(result.ID, "|"), "|"); number != strconv.Itoa(result.Words) {
			t.Errorf("job %s has %d words", result.ID, result.Words)
		}
		if !strings.HasPrefix(result.Worker, "words-") {
			t.Errorf("worker %q", result.Worker)
		}
		ids = append(ids, result.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
