package trial

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Memory is what of a process is in memory, in bytes.
type Memory struct {
	Process string `json:"process"`
	// Own is memory that no file backs: the heap and the stacks.
	Own uint64 `json:"ownBytes"`
	// Mapped are pages of files, which the kernel takes back when it needs to; for a local queue those of its file.
	Mapped uint64 `json:"mappedBytes"`
	// Shared is the ledger of the trial.
	Shared uint64 `json:"sharedBytes"`
	// Peak is the most that all three were together, so far.
	Peak uint64 `json:"peakBytes"`
}

// Resident is without the ledger, which is the benchmark's own.
func (m Memory) Resident() uint64 { return m.Own + m.Mapped }

// memoryOf reads what the kernel says of a process.
func memoryOf(name string, pid int) (Memory, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	return parseStatus(name, raw)
}

// parseStatus reads /proc/<pid>/status.
func parseStatus(name string, raw []byte) (Memory, error) {
	m := Memory{Process: name}
	found := 0
	for line := range bytes.Lines(raw) {
		key, value, _ := bytes.Cut(line, []byte{':'})
		into := map[string]*uint64{"RssAnon": &m.Own, "RssFile": &m.Mapped, "RssShmem": &m.Shared, "VmHWM": &m.Peak}[string(key)]
		if into == nil {
			continue
		}
		kibibytes, ok := bytes.CutSuffix(bytes.TrimSpace(value), []byte(" kB"))
		n, err := strconv.ParseUint(string(kibibytes), 10, 64)
		if err != nil || !ok {
			return Memory{}, fmt.Errorf("reading the memory of %s: %q", name, line)
		}
		*into = n << 10
		found++
	}
	if found != 4 {
		return Memory{}, fmt.Errorf("reading the memory of %s: %d of 4 lines", name, found)
	}
	return m, nil
}

// memory is that of all processes, in the order of their start.
func (r run) memory() ([]Memory, error) {
	all := make([]Memory, 0, len(r.cast))
	for _, p := range r.cast {
		m, err := memoryOf(p.name, p.pid)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
