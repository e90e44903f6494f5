package kubebinary

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/workpulling/workpulling/hack/cluster/internal/child"
	"github.com/workpulling/workpulling/hack/cluster/internal/filelock"
	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

// Ensure finds the program that the sources describe, and builds it first if there is none: about ten minutes on two
// cores with an empty Go cache, a few seconds with a warm one. Building needs the go command; nothing else does.
func Ensure(ctx context.Context, source string, say *progress.Printer) (Binary, error) {
	goVersion, err := output(ctx, source, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	if errors.Is(err, exec.ErrNotFound) {
		return Binary{}, errors.New("building Kubernetes needs Go 1.26 or newer: install it from https://go.dev/dl/ and put it on the PATH")
	}
	if err != nil {
		return Binary{}, err
	}
	id, err := key(source, goVersion)
	if err != nil {
		return Binary{}, err
	}
	root, err := cacheRoot()
	if err != nil {
		return Binary{}, err
	}
	found := Binary{dir: filepath.Join(root, id)}
	if found.exists() {
		return found, nil
	}
	unlock, err := filelock.Acquire(ctx, filepath.Join(root, "lock"), "the build of Kubernetes", say)
	if err != nil {
		return Binary{}, err
	}
	defer unlock()
	if found.exists() {
		return found, nil // by somebody else, while we waited
	}
	building := Binary{dir: filepath.Join(root, "building")}
	if err := build(ctx, source, building, say); err != nil {
		return Binary{}, err
	}
	if err := os.Rename(building.dir, found.dir); err != nil {
		return Binary{}, fmt.Errorf("keeping the Kubernetes program: %w", err)
	}
	say.Printf("built %s", found.Kube())
	return found, nil
}

func build(ctx context.Context, source string, into Binary, say *progress.Printer) error {
	if err := os.RemoveAll(into.dir); err != nil { // of a build that was broken off
		return fmt.Errorf("clearing the cache: %w", err)
	}
	version, err := output(ctx, source, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	say.Printf("building Kubernetes %s: fetching what is missing of its modules", version)
	var packages string
	err = say.While(func() string { return "fetching modules" }, func() (err error) {
		packages, err = output(ctx, source, "go", "list", "-deps", "./cmd/kube")
		return err
	})
	if err != nil {
		return err
	}
	total := len(strings.Fields(packages))
	if err := compile(ctx, source, into, version, total, say); err != nil {
		return err
	}
	pause := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", into.Pause(), "./cmd/pause")
	pause.Dir, pause.Env = source, static()
	if text, err := pause.CombinedOutput(); err != nil {
		return fmt.Errorf("building the sandbox program: %w\n%s", err, text)
	}
	if err := into.link(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(into.dir, "version"), []byte(version), 0o644); err != nil {
		return fmt.Errorf("noting the version: %w", err)
	}
	return nil
}

// compile runs the build and counts the packages that "go build -v" names; those in Go's cache already are not named.
func compile(ctx context.Context, source string, into Binary, version string, total int, say *progress.Printer) error {
	say.Printf("building Kubernetes %s: %d packages, those that Go's cache holds cost nothing", version, total)
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags="+ldflags(version), "-o", into.Kube(), "./cmd/kube")
	cmd.Dir, cmd.Env = source, static()
	var compiled atomic.Int64
	var errs bytes.Buffer
	reader, writer := io.Pipe()
	cmd.Stderr = writer
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			if line := lines.Text(); strings.ContainsAny(line, " \t") {
				fmt.Fprintln(&errs, line) // a message, not the name of a package
			} else {
				compiled.Add(1)
			}
		}
		io.Copy(io.Discard, reader)
	}()
	err := say.While(
		func() string {
			return fmt.Sprintf("building Kubernetes: %d of %d packages compiled", compiled.Load(), total)
		},
		func() error { return child.Run(cmd) })
	writer.Close()
	<-counted
	if err != nil {
		return fmt.Errorf("building Kubernetes: %w\n%s", err, errs.String())
	}
	return nil
}

// static is the environment of builds that need no C compiler and whose programs need no library.
func static() []string { return append(os.Environ(), "CGO_ENABLED=0") }

// ldflags gives the program its version: without, every component reports v0.0.0-master.
func ldflags(version string) string {
	flags := []string{"-s", "-w"}
	set := func(name, value string) {
		for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
			flags = append(flags, "-X", pkg+"."+name+"="+value)
		}
	}
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	set("gitVersion", version)
	if len(numbers) == 3 {
		set("gitMajor", numbers[0])
		set("gitMinor", numbers[1])
	}
	set("gitTreeState", "clean")
	return strings.Join(flags, " ")
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, static()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w\n%s", name, args[0], err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
}
