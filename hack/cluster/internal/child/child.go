// Package child runs programs that must not outlive this one.
//
// Invariant: the kernel kills the program when this process dies, also by kill -9.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Run is cmd.Run with that promise. The kernel ties it to the thread that forked, so the thread stays until the end.
func Run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return cmd.Run()
}
