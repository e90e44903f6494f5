package prestop

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Install copies the prestop program, which lies beside the running program, into dir, executable for everybody.
func Install(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the running program: %w", err)
	}
	return install(filepath.Join(filepath.Dir(self), "prestop"), filepath.Join(dir, "prestop"))
}

// install writes beside the target and renames, so that a repeated or broken-off run never leaves half a program.
func install(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("opening the prestop program: %w", err)
	}
	defer source.Close()
	target, err := os.CreateTemp(filepath.Dir(to), ".prestop-")
	if err != nil {
		return fmt.Errorf("creating the copy of prestop: %w", err)
	}
	defer os.Remove(target.Name()) // fails once renamed
	if _, err := io.Copy(target, source); err != nil {
		target.Close()
		return fmt.Errorf("copying prestop: %w", err)
	}
	if err := target.Chmod(0o755); err != nil {
		target.Close()
		return fmt.Errorf("making prestop executable: %w", err)
	}
	if err := target.Close(); err != nil {
		return fmt.Errorf("closing the copy of prestop: %w", err)
	}
	if err := os.Rename(target.Name(), to); err != nil {
		return fmt.Errorf("moving prestop into place: %w", err)
	}
	return nil
}
