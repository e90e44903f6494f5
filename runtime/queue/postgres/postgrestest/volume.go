package postgrestest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

const volumePrefix = "volume-"

// Volume mounts a volume of a few megabytes for the server, which only root may. Elsewhere the test is skipped; where PostgreSQL is
// required and the test is root it fails instead.
func (s *Server) Volume(t testing.TB, megabytes int) (dir string) {
	t.Helper()
	dir = filepath.Join(s.Dir, volumePrefix+strconv.Itoa(len(s.volumes)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", megabytes)); err != nil {
		if required() && os.Getuid() == 0 {
			t.Fatalf("mounting a small volume: %v", err)
		}
		t.Skipf("skipped, because it needs root to mount a small volume: %v", err)
	}
	s.volumes = append(s.volumes, dir)
	if err := s.own(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// own gives a path to the user of the server.
func (s *Server) own(path string) error {
	if s.user == nil {
		return nil
	}
	return os.Chown(path, int(s.user.Uid), int(s.user.Gid))
}

// unmount takes a volume away. It is not there any more where a test ended by itself.
func unmount(dir string) error {
	if err := syscall.Unmount(dir, 0); err != nil {
		return fmt.Errorf("unmounting %s: %w", dir, err)
	}
	return nil
}

// MoveLog brings the write-ahead log to a volume. The server crashes for it.
func (s *Server) MoveLog(t testing.TB, to string) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	here, there := filepath.Join(s.data(), "pg_wal"), filepath.Join(to, "pg_wal")
	if output, err := exec.CommandContext(t.Context(), "cp", "-a", here, there).CombinedOutput(); err != nil {
		t.Fatalf("copying the log: %v: %s", err, output)
	}
	if err := os.RemoveAll(here); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(there, here); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
}

// Ended tells whether the server has given up.
func (s *Server) Ended() bool { return s.process.ended() }
