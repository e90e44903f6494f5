package trial

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// clockTick is the kernel's unit of CPU time in /proc, 100 a second on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// stat is what /proc tells of a process.
type stat struct {
	pid, parent int
	used        time.Duration // by itself and by children that it has waited for
}

// descendantsCPU is the CPU time that all descendants of a process have used, user and system.
func descendantsCPU(root int) (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	children := map[int][]stat{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		s, err := parseStat(raw)
		if err != nil {
			return 0, err
		}
		children[s.parent] = append(children[s.parent], s)
	}
	return sumBelow(children, root), nil
}

func sumBelow(children map[int][]stat, root int) (sum time.Duration) {
	for _, s := range children[root] {
		sum += s.used + sumBelow(children, s.pid)
	}
	return sum
}

// parseStat reads /proc/<pid>/stat. The second field is a name in brackets that may hold anything.
func parseStat(raw []byte) (stat, error) {
	space, bracket := bytes.IndexByte(raw, ' '), bytes.LastIndexByte(raw, ')')
	if space < 0 || bracket < 0 {
		return stat{}, fmt.Errorf("no process state: %q", raw)
	}
	fields := bytes.Fields(raw[bracket+1:]) // from the third field on
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("too few fields: %q", raw)
	}
	pid, err := strconv.Atoi(string(raw[:space]))
	if err != nil {
		return stat{}, err
	}
	s := stat{pid: pid}
	if s.parent, err = strconv.Atoi(string(fields[1])); err != nil {
		return stat{}, err
	}
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.used += time.Duration(ticks) * clockTick
	}
	return s, nil
}
