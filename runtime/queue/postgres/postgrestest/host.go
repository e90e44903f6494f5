package postgrestest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const prefix = "workpulling-postgres-"

type programs struct{ initdb, postgres string }

// findPrograms takes the newest version that is installed.
func findPrograms() (programs, error) {
	dirs := []string{os.Getenv("WORKPULLING_POSTGRES_BIN")}
	if dirs[0] == "" {
		dirs, _ = filepath.Glob("/usr/lib/postgresql/*/bin")
		slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	}
	for _, dir := range dirs {
		found := programs{initdb: filepath.Join(dir, "initdb"), postgres: filepath.Join(dir, "postgres")}
		if executable(found.initdb) && executable(found.postgres) {
			return found, nil
		}
	}
	return programs{}, errors.New("no server below /usr/lib/postgresql; on Debian, `hack/setup.sh postgres` installs it")
}

func version(dir string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	return n
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}

// unprivileged is the user that a server runs as: the server refuses root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("the server refuses to run as root, and there is neither a user postgres nor nobody")
}

// sweep removes what test processes left that are no more.
func sweep() {
	dirs, _ := filepath.Glob("/tmp/" + prefix + "*")
	for _, dir := range dirs {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(text); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			volumes, _ := filepath.Glob(filepath.Join(dir, volumePrefix+"*"))
			for _, volume := range volumes {
				_ = unmount(volume)
			}
			_ = os.RemoveAll(dir)
		}
	}
}

// childrenOf are the direct children of a process.
func childrenOf(parent int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (name) state parent …, and a name may hold anything
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			var pid int
			if _, err := fmt.Sscan(filepath.Base(filepath.Dir(path)), &pid); err == nil {
				children = append(children, pid)
			}
		}
	}
	return children
}
