package local

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives the blocks of a range to the file, which grows to hold it; what is there stays.
func allocate(file *os.File, offset, bytes int64) error {
	for {
		err := unix.Fallocate(int(file.Fd()), 0, offset, bytes)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return writeZeros(file, offset, bytes)
		}
		return os.NewSyscallError("fallocate", err)
	}
}
