package running

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// victim tells the process that TestAKilledProcessLeavesWhatItBegan starts where its file is.
const victim = "RUNNING_SET_OF_A_VICTIM"

// What is stored into the mapping outlives a process that is killed in the next moment.
func TestAKilledProcessLeavesWhatItBegan(t *testing.T) {
	if path := os.Getenv(victim); path != "" {
		f, _ := open(t, path)
		begin(t, f, "orders", claim("a", 1), claim("b", 2), claim("c", 3))
		f.End("b")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	path := filepath.Join(t.TempDir(), "running")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), victim+"="+path)
	err := child.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v", err)
	}
	if _, left := open(t, path); len(left) != 2 || left[0] != "orders/a" || left[1] != "orders/c" {
		t.Errorf("left %v, want a and c", left)
	}
}
