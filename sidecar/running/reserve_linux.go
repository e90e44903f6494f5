package running

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes room for a new file. Blocks that are taken this way are not written when the file is renamed, as some file systems do with
// what was written shortly before.
func reserve(file *os.File, room int) error {
	for {
		err := unix.Fallocate(int(file.Fd()), 0, 0, int64(room))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return fill(file, room)
		}
		return os.NewSyscallError("fallocate", err)
	}
}
