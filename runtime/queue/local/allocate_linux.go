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

// syncData makes what was written to a file durable, and of its attributes only those without which it could not be read.
func syncData(file *os.File) error {
	for {
		if err := unix.Fdatasync(int(file.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// volumeBytes is the size of the volume that holds a directory.
func volumeBytes(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(stat.Blocks) * stat.Bsize, nil
}
