package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mountMemory makes a directory a volume of so many bytes, for which it has to be root.
func mountMemory(dir string, bytes int64) error {
	return unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes))
}

func unmount(dir string) error { return unix.Unmount(dir, unix.MNT_DETACH) }
