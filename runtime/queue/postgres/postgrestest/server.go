package postgrestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// Password is that of User, for connections over TCP.
const (
	User     = "tester"
	Password = "p4ssw0rd-of-the-test"
)

// Server is a running server.
type Server struct {
	// Dir holds the data and the socket.
	Dir  string
	Port int

	programs programs
	settings []string
	user     *syscall.Credential // nil: that of this process
	process  *process
	volumes  []string // mounted below Dir
	mu       sync.Mutex
	count    int
}

// Start starts a server that ends with t. Settings are as in postgresql.conf, such as "max_connections=20".
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := start(t, settings)
	if err != nil {
		t.Fatalf("starting PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Errorf("ending PostgreSQL: %v", err)
		}
	})
	return s
}

func start(t testing.TB, settings []string) (*Server, error) {
	found, err := findPrograms()
	if err != nil {
		if required() {
			t.Fatalf("this test needs PostgreSQL: %v", err)
		}
		t.Skipf("skipped, because it needs PostgreSQL: %v", err)
	}
	return establish(found, settings)
}

// required tells whether tests have to run rather than be skipped.
func required() bool {
	return os.Getenv("CI") != "" || os.Getenv("WORKPULLING_REQUIRE_POSTGRES") != ""
}

// Establish starts a server for a program that is no test. Remove ends it.
func Establish(settings ...string) (*Server, error) {
	found, err := findPrograms()
	if err != nil {
		return nil, err
	}
	return establish(found, settings)
}

// Remove ends the server and takes its data away.
func (s *Server) Remove() error { return s.remove() }

// establish starts a server in a directory right under /tmp: a shared one outlives the test, and the path of a socket has to be short.
func establish(found programs, settings []string) (*Server, error) {
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	sweep()
	dir, err := makeDir()
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, programs: found, settings: settings, user: user}
	if err := s.initialise(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func makeDir() (string, error) { return os.MkdirTemp("/tmp", prefix+strconv.Itoa(os.Getpid())+"-") }

func (s *Server) initialise() error {
	if err := s.own(s.Dir); err != nil {
		return err
	}
	password := filepath.Join(s.Dir, "password")
	if err := os.WriteFile(password, []byte(Password+"\n"), 0o644); err != nil { //nolint:gosec // read by the server's user; it guards nothing
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	init := exec.CommandContext(ctx, s.programs.initdb, "--pgdata="+s.data(), "--username=postgres", "--pwfile="+password, "--no-sync",
		"--data-checksums", "--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C")
	init.Dir, init.SysProcAttr = s.Dir, s.attributes()
	if output, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	if err := s.Run(); err != nil {
		return err
	}
	// Nothing that is tested may need a superuser.
	return s.Exec(ctx, "postgres", fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", User, Password))
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

func (s *Server) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: s.user, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}

// Run starts the server again after Kill, on the same port where that is possible.
func (s *Server) Run() error {
	var err error
	patience := time.Now().Add(time.Minute)
	for tries := 0; tries < 5; tries++ { // somebody else may take the port before the server does
		if s.Port == 0 {
			if s.Port, err = transporttest.FindPort(); err != nil {
				return err
			}
		}
		if err = s.run(); err == nil {
			return nil
		}
		if s.count == 0 {
			s.Port = 0
		}
		if errors.Is(err, errHaunted) && time.Now().Before(patience) {
			tries = 0
			<-time.After(20 * time.Millisecond)
		}
	}
	return err
}

// errHaunted says that processes of the server that was killed are still there; on a busy machine it takes them a while to notice.
var errHaunted = errors.New("the server that was killed has not ended altogether")

func (s *Server) run() error {
	arguments := []string{"-D", s.data(), "-k", s.Dir, "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_permissions=0777", "-c", "logging_collector=off", "-c", "log_min_messages=warning", "-c", "max_connections=200"}
	for _, setting := range s.settings {
		arguments = append(arguments, "-c", setting)
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // for people
	if err != nil {
		return err
	}
	defer log.Close()
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	command := exec.Command(s.programs.postgres, arguments...) //nolint:noctx // ended by stop
	command.Dir, command.SysProcAttr, command.Stdout, command.Stderr = s.Dir, s.attributes(), log, log
	if s.process, err = launch(command); err != nil {
		return err
	}
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) && !s.process.ended() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err = s.Exec(ctx, "postgres", "SELECT 1")
		cancel()
		if err == nil {
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
	_ = s.stop(syscall.SIGQUIT)
	text, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	if bytes.Contains(text[min(int(before), len(text)):], []byte("pre-existing shared memory block")) {
		err = errors.Join(errHaunted, err)
	}
	return fmt.Errorf("the server did not come up: %w; its log: %s", err, text)
}

// process is a child whose parent thread lives as long as it does: the signal at the parent's death goes by thread.
type process struct {
	pid  int
	done chan struct{}
}

func launch(command *exec.Cmd) (*process, error) {
	started := make(chan error)
	p := &process{done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer close(p.done)
		err := command.Start()
		if err == nil {
			p.pid = command.Process.Pid
		}
		started <- err
		if err == nil {
			_ = command.Wait()
		}
	}()
	return p, <-started
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (s *Server) stop(signal syscall.Signal) error {
	if s.process == nil || s.process.ended() {
		return nil
	}
	if err := syscall.Kill(s.process.pid, signal); err != nil {
		return err
	}
	select {
	case <-s.process.done:
		return nil
	case <-time.After(time.Minute):
		_ = syscall.Kill(-s.process.pid, syscall.SIGKILL)
		<-s.process.done
		return fmt.Errorf("the server did not end within a minute of %v", signal)
	}
}

// Kill ends the server as a crash does: all of its processes at once.
func (s *Server) Kill() error {
	if err := s.signalAll(syscall.SIGKILL); err != nil {
		return err
	}
	<-s.process.done
	return nil
}

// Pause stops all processes of the server without ending any: it answers nothing, and keeps its connections.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	if err := s.signalAll(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	if err := s.signalAll(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// signalAll reaches the postmaster, which is stopped first so that it starts no other process, and its children: each has a session of
// its own.
func (s *Server) signalAll(signal syscall.Signal) error {
	if err := syscall.Kill(s.process.pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stopping the postmaster: %w", err)
	}
	for _, pid := range append([]int{s.process.pid}, childrenOf(s.process.pid)...) {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("sending %s to process %d of the server: %w", signal, pid, err)
		}
	}
	return nil
}

func (s *Server) remove() error {
	err := s.stop(syscall.SIGINT)
	for _, dir := range s.volumes {
		err = errors.Join(err, unmount(dir))
	}
	if removal := os.RemoveAll(s.Dir); err == nil {
		err = removal
	}
	return err
}

// Database makes a new, empty database that belongs to User, and returns its name.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	s.mu.Lock()
	s.count++
	name := fmt.Sprintf("test%d", s.count)
	s.mu.Unlock()
	if err := s.Exec(t.Context(), "postgres", fmt.Sprintf("CREATE DATABASE %s OWNER %s", name, User)); err != nil {
		t.Fatalf("making a database: %v", err)
	}
	return name
}

// URL is the connection string of User to a database over loopback.
func (s *Server) URL(database string) string { return URLAt(s.Address(), database) }

// Address is where the server listens.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// URLAt is URL for another address that leads to the server, such as a proxy's.
func URLAt(address, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(User, Password), Host: address, Path: database, RawQuery: "sslmode=disable"}
	return u.String()
}

// SuperURL is the connection string of the superuser over the socket.
func (s *Server) SuperURL(database string) string {
	return fmt.Sprintf("host=%s port=%d user=postgres dbname=%s sslmode=disable", s.Dir, s.Port, database)
}

// Exec runs statements as the superuser.
func (s *Server) Exec(ctx context.Context, database, sql string) error {
	conn, err := pgx.Connect(ctx, s.SuperURL(database))
	if err != nil {
		return err
	}
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	_ = conn.Close(ctx)
	return err
}
