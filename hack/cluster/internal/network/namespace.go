package network

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Namespace is the network namespace of a process; 0 is the caller's own.
type Namespace struct{ PID int }

// command prepares a program that runs in the namespace. Only the network namespace is entered: "ip netns exec" would also
// mount another /sys, without cgroups.
func (n Namespace) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if n.PID == 0 {
		return exec.CommandContext(ctx, name, args...)
	}
	return exec.CommandContext(ctx, "nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", n.PID), name}, args...)...)
}

// ip runs lines of the ip command, all or up to the first that fails.
func (n Namespace) ip(ctx context.Context, lines ...string) error {
	cmd := n.command(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("setting up the network: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
