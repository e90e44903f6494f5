package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is where the figures come from.
type Machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	MemoryGiB  int    `json:"memoryGiB"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"fileSystem"`
	Go         string `json:"go"`
	// Load is the average of the last minute when the measuring was over; a load of its own is about as high as there are cores.
	Load string `json:"load"`
}

// ThisMachine reads what the kernel says; what it does not say stays "unknown". dir is on the disk that was measured.
func ThisMachine(dir string) Machine {
	m := Machine{CPU: field("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Kernel: "unknown", FileSystem: "unknown", Go: runtime.Version(), Load: "unknown"}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryGiB = int((info.Totalram*uint64(info.Unit) + 1<<29) >> 30)
	}
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil {
		m.FileSystem = fileSystem(fs.Type)
	}
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(raw), " ")
	}
	return m
}

func fileSystem(kind int64) string {
	switch kind {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs (nothing is durable)"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	default:
		return fmt.Sprintf("type %#x", kind)
	}
}

// field is the first value of a key in a file of lines "key : value".
func field(path, key string) string {
	file, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
