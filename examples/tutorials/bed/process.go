package bed

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// asProgram makes a test binary be its program.
const asProgram = "WORKPULLING_TUTORIAL_PROGRAM"

// Main is the TestMain of a tutorial: it runs the tests, or, in a process that Run started, the program.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// Process is one run of the program.
type Process struct {
	t       *testing.T
	command *exec.Cmd
	done    chan struct{}
}

// Run starts the program with these arguments. It is killed at the end of the test.
func Run(t *testing.T, arguments ...string) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self, arguments...)
	command.Env = append(os.Environ(), asProgram+"=1")
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, command: command, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = command.Wait()
	}()
	t.Cleanup(p.Kill)
	return p
}

// Kill ends the program as a crash of its machine would (SIGKILL): it can do nothing about it.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it may have ended by itself
	<-p.done
}

// Wait waits until the program ends by itself, and tells whether it ended well.
func (p *Process) Wait() bool {
	p.t.Helper()
	select {
	case <-p.done:
		return p.command.ProcessState.Success()
	case <-time.After(transporttest.Patience):
		p.t.Fatal("the program does not end")
		return false
	}
}

// App is a program that serves HTTP under -listen, and can be started again on the same port.
type App struct {
	// Lossy is a proxy in front of the app that can lose answers.
	Lossy     *transporttest.Proxy
	t         *testing.T
	address   string
	arguments []string
	process   *Process
}

// Serve starts an app and waits until it listens.
func Serve(t *testing.T, arguments ...string) *App {
	t.Helper()
	address := transporttest.FreeAddress(t)
	a := &App{t: t, Lossy: transporttest.NewProxy(t, address), address: address, arguments: append([]string{"-listen", address}, arguments...)}
	a.Restart()
	return a
}

// Port is where the app listens itself. While it is dead nobody does, which costs a job no attempt.
func (a *App) Port() int { return PortOf(a.t, a.address) }

// LossyPort is that of the proxy.
func (a *App) LossyPort() int { return PortOf(a.t, a.Lossy.Address()) }

// PortOf is the port of host:port.
func PortOf(t *testing.T, address string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Kill kills the app.
func (a *App) Kill() { a.process.Kill() }

// Restart starts the app, after it was killed, and waits until it listens.
func (a *App) Restart() {
	a.t.Helper()
	a.process = Run(a.t, a.arguments...)
	transporttest.Eventually(a.t, "the app listens", func() bool {
		conn, err := net.Dial("tcp", a.address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}
