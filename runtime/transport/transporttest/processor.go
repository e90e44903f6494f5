package transporttest

import (
	"syscall"
	"testing"
)

// ProcessorTime is what this process has used, in nanoseconds, garbage collection included.
func ProcessorTime(b *testing.B) int64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
