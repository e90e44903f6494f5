package running

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// surface is a file with room that is there already.
type surface interface {
	io.WriterAt
	io.Closer
}

// surfaceOf takes the file over. It is written through memory, which costs no system call and outlives the process as a write
// does; where the volume cannot be mapped it is written as files are.
func surfaceOf(file *os.File, room int) surface {
	memory, err := unix.Mmap(int(file.Fd()), 0, room, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return file
	}
	file.Close() // the mapping stays
	return &mapping{memory}
}

// mapping is a file in memory.
type mapping struct{ memory []byte }

// WriteAt implements io.WriterAt. A page that the kernel cannot provide (the volume is gone, or its disk broke) is an error and not the
// end of the process.
func (m *mapping) WriteAt(p []byte, at int64) (n int, err error) {
	if at < 0 || at > int64(len(m.memory)) {
		return 0, io.ErrShortWrite
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			n, err = 0, fmt.Errorf("a page of the file is not there: %v", cause)
		}
	}()
	if n = copy(m.memory[at:], p); n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// Close implements io.Closer.
func (m *mapping) Close() error {
	if m.memory == nil {
		return errors.New("the file is closed already")
	}
	err := unix.Munmap(m.memory)
	m.memory = nil
	return os.NewSyscallError("munmap", err)
}
