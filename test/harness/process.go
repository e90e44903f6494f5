package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrNotHere says that the processes of a pod are not on this machine, as with a cluster of other machines.
var ErrNotHere = errors.New("the pod's processes are not on this machine")

// Kill sends SIGKILL to the process of a pod whose command line begins with program, for example "/app". It is how a node's
// kernel would end a container.
func (k *Kubectl) Kill(ctx context.Context, namespace, pod, program string) error {
	uid, err := k.Get(ctx, "-n", namespace, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return err
	}
	pid, err := Signal(uid, program, syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod, err)
	}
	k.say(fmt.Sprintf("$ kill -9 %d   # %s in pod %s", pid, program, pod))
	return nil
}

// Signal sends a signal to the process of a pod whose command line begins with program, and returns its id. It asks no API server.
func Signal(podUID, program string, signal syscall.Signal) (int, error) {
	pid, err := findProcess(podUID, program)
	if err != nil {
		return 0, fmt.Errorf("looking for %s: %w", program, err)
	}
	if err := syscall.Kill(pid, signal); err != nil {
		return 0, fmt.Errorf("sending %s to process %d, which is %s: %w", signal, pid, program, err)
	}
	return pid, nil
}

// findProcess knows the pod by its UID in the path of its control group; the systemd driver writes it with underscores.
func findProcess(podUID, program string) (int, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, err
	}
	for _, path := range groups {
		group, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(group, []byte(podUID)) && !bytes.Contains(group, []byte(strings.ReplaceAll(podUID, "-", "_"))) {
			continue // ended meanwhile, or another pod's
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil {
			continue
		}
		if name, _, _ := bytes.Cut(line, []byte{0}); string(name) == program {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, ErrNotHere
}
