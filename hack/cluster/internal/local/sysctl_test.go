package local

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSysctlsAreRaisedAndPutBack(t *testing.T) {
	const low, high = "fs.inotify.max_user_instances", "fs.inotify.max_user_watches"
	s := sysctls{t.TempDir()}
	if err := os.MkdirAll(filepath.Join(s.root, "fs/inotify"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name string, value int) {
		t.Helper()
		if err := os.WriteFile(s.path(name), nil, 0o644); err != nil { // what set writes to is there already
			t.Fatal(err)
		}
		if err := s.set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want map[string]int) {
		t.Helper()
		got := map[string]int{}
		for name := range want {
			var err error
			if got[name], err = s.get(name); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	write(low, 128)
	write(high, 1_000_000)
	tooLow, err := s.tooLow()
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(tooLow, map[string]int{low: 128}) {
		t.Fatalf("too low: %v", tooLow)
	}
	if err := s.raise(tooLow); err != nil {
		t.Fatal(err)
	}
	check(map[string]int{low: wanted[low], high: 1_000_000})
	if err := s.restore(tooLow); err != nil {
		t.Fatal(err)
	}
	check(map[string]int{low: 128, high: 1_000_000})
	write(low, 4096) // by somebody else, while a cluster was up
	if err := s.restore(tooLow); err != nil {
		t.Fatal(err)
	}
	check(map[string]int{low: 4096})
}
