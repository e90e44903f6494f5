package state

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workpulling/workpulling/hack/cluster/internal/address"
)

func TestSaveLoadForget(t *testing.T) {
	dir := t.TempDir()
	if s, err := Load(dir); s != nil || err != nil {
		t.Fatalf("an empty directory gave %v, %v", s, err)
	}
	want := &State{
		Name: "a", Phase: Starting, Plan: address.Plan{Network: netip.MustParsePrefix("10.200.0.0/16")}, Nodes: 1,
		HostLink: "wpk200", Cgroup: "/workpulling/a", Sysctls: map[string]int{"fs.inotify.max_user_instances": 128},
		Members: []Member{{Name: "control-plane", Process: Process{PID: 1, Start: 2, BootID: "b"}}},
	}
	if err := want.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
	for range 2 { // forgetting twice is no error
		if err := Forget(dir); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestLoadNamesABrokenFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, file), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("half a file was accepted")
	}
}

func TestParseStat(t *testing.T) {
	fields := " S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1000 10"
	for name, c := range map[string]struct {
		stat    string
		wantErr bool
	}{
		"plain":                      {"42 (kube)" + fields, false},
		"a name with parentheses":    {"42 (a) R 1 (b)" + fields, false},
		"no name":                    {"42", true},
		"cut off":                    {"42 (kube) S 1 1", true},
		"not a number where it ends": {"42 (kube) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 x", true},
	} {
		t.Run(name, func(t *testing.T) {
			status, start, err := parseStat([]byte(c.stat))
			if (err != nil) != c.wantErr {
				t.Fatalf("error %v", err)
			}
			if err == nil && (status != 'S' || start != 4711) {
				t.Errorf("got %c %d", status, start)
			}
		})
	}
}

func TestKillEndsExactlyTheProcess(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]Process{
		"a later process with the same id": {PID: p.PID, Start: p.Start - 1, BootID: p.BootID},
		"the same id before a reboot":      {PID: p.PID, Start: p.Start, BootID: "another"},
		"no process":                       {},
	} {
		if other.Alive() {
			t.Errorf("%s: alive", name)
		}
		if err := other.Kill(time.Second); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !p.Alive() {
		t.Fatal("killed by mistake")
	}
	if err := p.Kill(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if p.Alive() { // not reaped yet, so the id is still there
		t.Error("a zombie counts as alive")
	}
	cmd.Wait()
	if err := p.Kill(time.Second); err != nil {
		t.Errorf("killing again: %v", err)
	}
}
