package runtimeconfig

import (
	"net"
	"path/filepath"
	"strconv"
)

// Place says where the paths and ports of a pod lie. The zero value is a pod. A process of the host, which has neither a file system nor a
// network of its own, has a directory and an address instead: that is how the crash tests run the real sidecars.
type Place struct {
	// Root is the directory below which every path lies (/).
	Root string
	// Host is the address that is listened on (all), and the one of the app beside (127.0.0.1).
	Host string
}

// Path is where a path of the layout lies.
func (p Place) Path(path string) string { return filepath.Join(p.Root, path) }

// Address is where a port of the layout is listened on.
func (p Place) Address(port int) string { return net.JoinHostPort(p.Host, strconv.Itoa(port)) }

// AppHost is where the app beside listens.
func (p Place) AppHost() string {
	if p.Host == "" {
		return "127.0.0.1"
	}
	return p.Host
}
