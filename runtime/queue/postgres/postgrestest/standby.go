package postgrestest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Standby starts a second server that follows this one, until it is promoted, and ends with t.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	dir, err := makeDir()
	if err != nil {
		t.Fatal(err)
	}
	standby := &Server{Dir: dir, programs: s.programs, settings: s.settings, user: s.user}
	t.Cleanup(func() {
		if err := standby.remove(); err != nil {
			t.Errorf("ending the standby: %v", err)
		}
	})
	if err := standby.own(dir); err != nil {
		t.Fatal(err)
	}
	backup := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(s.programs.postgres), "pg_basebackup"), "--pgdata="+standby.data(),
		"--dbname="+s.SuperURL("postgres"), "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	backup.Dir, backup.SysProcAttr, backup.Env = dir, standby.attributes(), append(os.Environ(), "HOME="+dir)
	if output, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v: %s", err, output)
	}
	if err := standby.Run(); err != nil {
		t.Fatal(err)
	}
	return standby
}
