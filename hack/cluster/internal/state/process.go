package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process identifies one process for ever.
type Process struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"`  // clock ticks since boot
	BootID string `json:"bootId"` // of the boot that Start counts from
}

// Identify describes the living process with the id.
func Identify(pid int) (Process, error) {
	boot, err := bootID()
	if err != nil {
		return Process{}, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	_, start, err := parseStat(stat)
	if err != nil {
		return Process{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	return Process{PID: pid, Start: start, BootID: boot}, nil
}

// Alive reports whether exactly this process runs; one that waits to be reaped does not.
func (p Process) Alive() bool {
	boot, err := bootID()
	if err != nil || boot != p.BootID || p.PID == 0 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return false
	}
	status, start, err := parseStat(stat)
	return err == nil && start == p.Start && status != 'Z' && status != 'X'
}

// Kill ends the process and waits until it is gone. A process that is gone already is no error.
func (p Process) Kill(limit time.Duration) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) || !p.Alive() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	// The descriptor was opened before Alive looked: it cannot mean a later process with the same id.
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", p.PID, err)
	}
	for deadline := time.Now().Add(limit); p.Alive(); {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("process %d does not end", p.PID)
		}
		unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
	}
	return nil
}

// parseStat reads state and start time from /proc/<pid>/stat. The command name in it may hold anything, so the fields are
// counted from its closing parenthesis.
func parseStat(stat []byte) (status byte, start uint64, err error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, 0, errors.New("no command name")
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("only %d fields", len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0][0], start, err
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
