package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// Listen opens the socket at path for every user of the pod.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier process: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening on a socket: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("opening a socket to the pod: %w", err), listener.Close())
	}
	return listener, nil
}
