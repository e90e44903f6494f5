package member

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// hidden are directories of the machine that a member sees empty, so that it neither finds nor leaves anything there.
var hidden = []string{"/run", "/var/lib", "/var/log"}

// tunables are kernel settings of the whole machine that the kubelet insists on. Panicking on a kernel warning is not for a
// developer's machine, so the kubelet is shown files with the values that it wants.
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// prepare turns the copied namespaces into the member's own world.
func prepare(c Config) error {
	if err := syscall.Sethostname([]byte(c.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	// First of all: what we mount from here on is seen by nobody else.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separating the mounts: %w", err)
	}
	kept, err := open(c)
	if err != nil {
		return err
	}
	for _, dir := range hidden {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("hiding %s: %w", dir, err)
		}
	}
	for _, k := range kept {
		if err := k.show(); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := fakeTunables(); err != nil {
		return err
	}
	if c.Forward {
		if err := forward(); err != nil {
			return fmt.Errorf("forwarding packets: %w", err)
		}
	}
	// Pods may ask for mount propagation, which needs shared mounts to start from. The group is new: the machine is not in it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing the mounts among pods: %w", err)
	}
	return nil
}

// forward passes on packets, and never tells a sender of a shorter way: a packet for a Service that meets no rule of kube-proxy
// yet goes back out to the bridge, and a sender that learns that way from it would never come by the rules again.
func forward() error {
	for _, name := range []string{"all", "default", "eth0"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/send_redirects", []byte("0"), 0); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// view is an open directory and the place where it is to be seen.
type view struct {
	dir *os.File
	at  string
}

// open takes hold of directories before they are hidden.
func open(c Config) ([]view, error) {
	var out []view
	add := func(from, to string) error {
		dir, err := os.OpenFile(from, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("looking for %s: %w", from, err)
		}
		out = append(out, view{dir: dir, at: to})
		return nil
	}
	for _, dir := range c.Keep {
		if err := add(dir, dir); err != nil {
			return nil, err
		}
	}
	for _, b := range c.Binds {
		if err := add(b.From, b.To); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (v view) show() error {
	defer v.dir.Close()
	if here, err := os.Stat(v.at); err == nil {
		if there, err := v.dir.Stat(); err == nil && os.SameFile(here, there) {
			return nil // nothing hides it
		}
	}
	if err := os.MkdirAll(v.at, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", v.at, err)
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", v.dir.Fd()), v.at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("showing %s: %w", v.at, err)
	}
	return nil
}

func fakeTunables() error {
	const dir = "/run/tunables"
	for name, value := range tunables {
		fake, real := filepath.Join(dir, name), filepath.Join("/proc/sys", name)
		if _, err := os.Stat(real); err != nil {
			continue // not in this kernel
		}
		if err := os.MkdirAll(filepath.Dir(fake), 0o755); err != nil {
			return fmt.Errorf("writing tunables: %w", err)
		}
		if err := os.WriteFile(fake, []byte(value+"\n"), 0o644); err != nil {
			return fmt.Errorf("writing tunables: %w", err)
		}
		if err := unix.Mount(fake, real, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("showing tunable %s: %w", name, err)
		}
	}
	return nil
}
