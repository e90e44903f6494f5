package main

import (
	"errors"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr/testr"
)

func TestHeapStaysBelowTheContainersLimit(t *testing.T) {
	for _, name := range []string{"GOMEMLIMIT", "AUTOMEMLIMIT"} {
		t.Setenv(name, "") // puts back what was there
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	limitMemory(testr.New(t), memlimit.Limit(512<<20))
	ninety := float64(512<<20) * 0.9
	want := int64(ninety)
	if got := debug.SetMemoryLimit(-1); got != want {
		t.Errorf("the limit is %d, want %d", got, want)
	}
	limitMemory(testr.New(t), func() (uint64, error) { return 0, errors.New("no cgroup file system") })
	if got := debug.SetMemoryLimit(-1); got != want {
		t.Errorf("a failure changed the limit to %d", got)
	}
}
