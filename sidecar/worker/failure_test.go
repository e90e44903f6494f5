package worker_test

import (
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// A sidecar that lost a part ends at once, so that kubelet starts it anew: it must not wait for an app that takes its time.
func TestALostPartEndsTheSidecarWhateverTheAppDoes(t *testing.T) {
	r := start(t)
	r.app.hold = make(chan struct{})
	t.Cleanup(func() { close(r.app.hold) })
	r.flow.submit(t, "a")
	transporttest.Eventually(t, "it runs", func() bool { return r.status(t).GetRunning() == 1 })
	breakListener(t, r.HealthAddress)
	var err error
	transporttest.Eventually(t, "the sidecar ends", func() bool {
		select {
		case err = <-r.ended:
			return true
		default:
			return false
		}
	})
	if err == nil {
		t.Error("it ended without an error")
	}
	r.ended <- nil // for the cleanup
}

// breakListener makes Accept fail on the listener of this process at address, as if the kernel had.
func breakListener(t *testing.T, address string) {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for fd := range 4096 {
		name, err := syscall.Getsockname(fd)
		if err != nil {
			continue
		}
		inet, ok := name.(*syscall.SockaddrInet4)
		listens, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
		if !ok || err != nil || listens == 0 || strconv.Itoa(inet.Port) != port {
			continue
		}
		if err := syscall.Shutdown(fd, syscall.SHUT_RDWR); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no listener at %s", address)
}
