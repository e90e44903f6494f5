package controlplane

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// port is a TCP port on 127.0.0.1 that is ours until closed. The socket is bound but does not listen, so the API server can
// share the port (SO_REUSEPORT) and gets every connection, while the kernel gives the port to nobody else: there is no gap
// between choosing and using it.
type port struct {
	number int
	fd     int
}

func reservePort() (port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return port{}, os.NewSyscallError("socket", err)
	}
	number, err := bindAny(fd)
	if err != nil {
		unix.Close(fd)
		return port{}, fmt.Errorf("reserving a port: %w", err)
	}
	return port{number: number, fd: fd}, nil
}

func bindAny(fd int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return address.(*unix.SockaddrInet4).Port, nil
}

func (p port) close() { unix.Close(p.fd) }
