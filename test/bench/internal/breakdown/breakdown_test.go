package breakdown

import (
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

func TestAreaOf(t *testing.T) {
	const ours = modulePath
	for _, c := range []struct {
		want  string
		stack []string
	}{
		{"garbage collection", []string{"runtime.scanObject", "runtime.gcDrain", "runtime.gcBgMarkWorker.func2", "runtime.systemstack"}},
		{"garbage collection", []string{"runtime.scanObject", "runtime.gcAssistAlloc", "runtime.mallocgc", ours + "/runtime/delivery.(*Controller).Step"}},
		{"allocation", []string{"runtime.nextFreeFast", "runtime.mallocgc", "runtime.newobject", ours + "/runtime/delivery.(*Controller).Step"}},
		{"delivery machines", []string{"runtime.memmove", ours + "/runtime/delivery.(*Controller).Step", ours + "/runtime/endpoint.(*Producer).step"}},
		{"endpoints and Go API", []string{ours + "/runtime/endpoint.(*Producer).step"}},
		{"endpoints and Go API", []string{ours + ".(*Worker).handle"}},
		{"queue", []string{"runtime.memmove", ours + "/runtime/queue/memory.(*Queue).Apply"}},
		{"bbolt", []string{"go.etcd.io/bbolt.(*node).put", ours + "/runtime/queue/local.(*Queue).Apply"}},
		{"system calls", []string{"internal/runtime/syscall.Syscall6", "syscall.write", "net.(*conn).Write", "crypto/tls.(*Conn).Write"}},
		{"TLS and digests", []string{"crypto/internal/fips140/aes/gcm.gcmAesEnc", "crypto/tls.(*Conn).Write", "google.golang.org/grpc.x"}},
		{"driver and apps", []string{ours + "/test/bench/internal/trial.(*driver).flood"}},
		{"scheduling and channels", []string{"runtime.selectgo", ours + "/runtime/endpoint.(*Worker).run"}},
		{"other", []string{"strings.Builder"}},
		{"other", nil},
	} {
		if got := areaOf(c.stack); got != c.want {
			t.Errorf("%q belongs to %s, want %s", c.stack, got, c.want)
		}
	}
}

// write puts a profile of some stacks, each given as "cpu function;function…", into a file.
func write(t *testing.T, cpu map[string]int64) string {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
	}
	for stack, n := range cpu {
		sample := &profile.Sample{Value: []int64{1, n}}
		for name := range strings.SplitSeq(stack, ";") {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, l)
			sample.Location = append(sample.Location, l)
		}
		p.Sample = append(p.Sample, sample)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "profile"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := p.Write(file); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

func TestReadAddsUpProcesses(t *testing.T) {
	first := write(t, map[string]int64{"crypto/tls.x": 30, modulePath + "/runtime/delivery.y;main.main": 50})
	second := write(t, map[string]int64{"runtime.memmove;crypto/tls.z": 20, "strings.Cut": 100})
	got, err := Read([]string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Share{{other, 0.5}, {"TLS and digests", 0.25}, {"delivery machines", 0.25}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := Text(got, 0.02); text != "TLS and digests 25 %, delivery machines 25 %, the rest 50 %" {
		t.Errorf("text %q", text)
	}
}

func TestReadFailsWithoutASample(t *testing.T) {
	if _, err := Read([]string{write(t, nil)}); err == nil {
		t.Error("a profile without a sample has shares")
	}
	if _, err := Read([]string{filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a missing profile has shares")
	}
}

// A profile of this process is one that Read can read.
func TestReadARealProfile(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "profile"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("a needle", 1000)
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
		_ = strings.Count(text, "needle")
	}
	pprof.StopCPUProfile()
	if shares, err := Read([]string{file.Name()}); err != nil || len(shares) == 0 {
		t.Errorf("%v, %v", shares, err)
	}
}
