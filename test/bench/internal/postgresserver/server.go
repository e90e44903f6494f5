// Package postgresserver runs a private PostgreSQL on the disk of a trial, with durable commits, for every system that stores there.
//
// Invariants: all systems get the same server with the same settings; it listens on loopback and on a socket in its own directory alone; it
// runs as an unprivileged user where this process is root, and ends with the trial.
package postgresserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// settings are those of a server that is used for this alone. fsync and synchronous_commit stay on.
var settings = []string{"shared_buffers=256MB", "max_wal_size=4GB", "checkpoint_timeout=15min", "max_connections=100"}

// Settings says which server it is and how it is set, for people.
func Settings() string {
	version := "PostgreSQL"
	if programs, err := find(); err == nil {
		if said, err := exec.Command(filepath.Join(programs, "postgres"), "--version").Output(); err == nil { //nolint:noctx // it ends at once
			version = strings.TrimSpace(string(said))
		}
	}
	return version + " over loopback, fsync and synchronous_commit on, " + strings.Join(settings, ", ")
}

// find returns the directory of the newest installed server's programs.
func find() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.New("PostgreSQL is not installed: hack/setup.sh postgres")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// Available says why there can be no server here.
func Available() error {
	_, err := find()
	return err
}

// server is one that runs.
type server struct {
	dir, programs string
	port          int
	as            *syscall.SysProcAttr
	process       *exec.Cmd
	exited        chan struct{}
}

// Serve starts a server with an empty database and tells its URL under a name.
func Serve(ctx context.Context, s *trial.Stage, name string) (stop func() error, err error) {
	programs, err := find()
	if err != nil {
		return nil, err
	}
	db := &server{dir: s.Path("postgres"), programs: programs, exited: make(chan struct{})}
	if db.as, err = db.home(); err != nil {
		return nil, err
	}
	if db.port, err = freePort(); err != nil {
		return nil, err
	}
	if err := db.start(ctx); err != nil {
		return nil, err
	}
	return db.stop, s.Tell(name, fmt.Sprintf("postgres://bench@127.0.0.1:%d/bench?sslmode=disable", db.port))
}

// home makes the directory, owned by whom the server runs as.
func (db *server) home() (*syscall.SysProcAttr, error) {
	if err := os.Mkdir(db.dir, 0o700); err != nil {
		return nil, err
	}
	as := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() != 0 {
		return as, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		if account, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("there is no user to run a server as: %w", err)
		}
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return as, os.Chown(db.dir, int(uid), int(gid))
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func (db *server) start(ctx context.Context) error {
	data := filepath.Join(db.dir, "data")
	init := exec.CommandContext(ctx, filepath.Join(db.programs, "initdb"), "--pgdata="+data, "--username=bench", "--no-sync", "--auth=trust",
		"--encoding=UTF8", "--locale=C")
	init.Dir, init.SysProcAttr = db.dir, db.as
	if output, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	arguments := []string{"-D", data, "-k", db.dir, "-p", strconv.Itoa(db.port), "-c", "listen_addresses=127.0.0.1", "-c", "logging_collector=off"}
	for _, setting := range settings {
		arguments = append(arguments, "-c", setting)
	}
	db.process = exec.Command(filepath.Join(db.programs, "postgres"), arguments...) //nolint:noctx // ended by stop
	db.process.Dir, db.process.SysProcAttr, db.process.Stderr = db.dir, db.as, os.Stderr
	if err := db.process.Start(); err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	go func() {
		defer close(db.exited)
		_ = db.process.Wait() // stop is how it ends
	}()
	if err := db.create(ctx); err != nil {
		return errors.Join(err, db.stop())
	}
	return nil
}

// create waits for the server and makes the database.
func (db *server) create(ctx context.Context) error {
	url := fmt.Sprintf("postgres://bench@127.0.0.1:%d/postgres?sslmode=disable", db.port)
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			_, err = conn.Exec(ctx, "CREATE DATABASE bench")
			return errors.Join(err, conn.Close(ctx))
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// stop ends the server at once: nobody needs its data any more.
func (db *server) stop() error {
	if err := db.process.Process.Signal(syscall.SIGQUIT); err != nil {
		return fmt.Errorf("ending PostgreSQL: %w", err)
	}
	<-db.exited
	return nil
}
