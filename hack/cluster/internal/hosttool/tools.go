package hosttool

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

// program is a command and the Debian package that brings it.
type program struct{ name, deb string }

var programs = []program{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"iptables-save", "iptables"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
	{"mount", "mount"},
}

const cniPackage = "containernetworking-plugins"

// plugins are those of our CNI configuration, and where distributions put them.
var (
	plugins    = []string{"ptp", "host-local", "portmap", "loopback"}
	pluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
)

// Tools is what was found.
type Tools struct {
	Containerd string // path
	CNIDir     string // directory of the plugins
}

// Ensure finds all tools and installs those that are missing, as root on a machine with apt.
func Ensure(ctx context.Context, say *progress.Printer) (Tools, error) {
	tools, missing := find()
	if len(missing) == 0 {
		return tools, nil
	}
	if err := install(ctx, missing, say); err != nil {
		return Tools{}, err
	}
	if tools, missing = find(); len(missing) > 0 {
		return Tools{}, fmt.Errorf("still missing after the installation: %s", describe(missing))
	}
	return tools, nil
}

func find() (Tools, []program) {
	var missing []program
	for _, p := range programs {
		if _, err := exec.LookPath(p.name); err != nil {
			missing = append(missing, p)
		}
	}
	tools := Tools{}
	tools.Containerd, _ = exec.LookPath("containerd")
	if tools.CNIDir = findPlugins(pluginDirs); tools.CNIDir == "" {
		missing = append(missing, program{"CNI plugins " + strings.Join(plugins, ", "), cniPackage})
	}
	return tools, missing
}

// findPlugins gives the first directory that holds all plugins, empty if none does.
func findPlugins(dirs []string) string {
	i := slices.IndexFunc(dirs, func(dir string) bool {
		return !slices.ContainsFunc(plugins, func(name string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err != nil
		})
	})
	if i < 0 {
		return ""
	}
	return dirs[i]
}

func install(ctx context.Context, missing []program, say *progress.Printer) error {
	packages := debs(missing)
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing on this machine: %s; on Debian or Ubuntu: apt-get install %s", describe(missing), strings.Join(packages, " "))
	}
	say.Printf("installing %s with apt", strings.Join(packages, ", "))
	args := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if run(ctx, say, apt, args...) == nil {
		return nil
	}
	// The package lists may be old or absent: fetch them and try once more.
	if err := run(ctx, say, apt, "update"); err != nil {
		return err
	}
	return run(ctx, say, apt, args...)
}

func run(ctx context.Context, say *progress.Printer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	var out []byte
	err := say.While(func() string { return "apt-get " + args[0] + " is at work" }, func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func debs(missing []program) []string {
	var out []string
	for _, p := range missing {
		out = append(out, p.deb)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func describe(missing []program) string {
	var out []string
	for _, p := range missing {
		out = append(out, fmt.Sprintf("%s (package %s)", p.name, p.deb))
	}
	return strings.Join(out, ", ")
}
