package standalone

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workpulling/workpulling/internal/manifest"
)

// appPlan is how the app of a pool, or the producing app of a flow, is started.
type appPlan struct {
	// whose is the object of the app, for messages: "pool words". commandFlag and envFlag, with its name, say more about it on the command
	// line: "--command words".
	whose, commandFlag, envFlag string

	at        manifest.Position
	template  corev1.PodTemplateSpec
	container corev1.Container
	// command has its variables unexpanded; shell is there instead where a person gave one.
	command []string
	shell   string
	// dir is where the app runs; empty is the current directory.
	dir string
	// extra are variables of the command line.
	extra []string
	// grace is how long the app has after SIGTERM.
	grace time.Duration
}

// named says whether there is something to start.
func (p *appPlan) named() bool { return p.shell != "" || len(p.container.Command) > 0 }

// findCommand says what the app is started with.
func (p *appPlan) findCommand() error {
	if p.shell != "" {
		return nil
	}
	if !p.named() {
		return fmt.Errorf("%s: %s: its container %s names the image %s and no command, and images are not run here: say what to start, for example\n"+
			"\t%s='python3 app.py'", p.at, p.whose, p.container.Name, p.container.Image, p.commandFlag)
	}
	p.command = append(slices.Clone(p.container.Command), p.container.Args...)
	p.dir = p.at.Dir
	if dir := p.container.WorkingDir; dir != "" {
		if p.dir = dir; !filepath.IsAbs(dir) {
			p.dir = filepath.Join(p.at.Dir, dir)
		}
		if info, err := os.Stat(p.dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s: %s: the workingDir %s of its container %s is no directory of this machine: say what to start with %s='…', which runs in the current directory",
				p.at, p.whose, dir, p.container.Name, p.commandFlag)
		}
	}
	return p.checkProgram()
}

// checkProgram says early that a program is not there.
func (p *appPlan) checkProgram() error {
	program := p.command[0]
	if strings.Contains(program, "$(") {
		return nil
	}
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(p.dir, program)
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%s: %s: the command of its container %s cannot be started on this machine: %w; say what to start with %s='…'",
			p.at, p.whose, p.container.Name, err, p.commandFlag)
	}
	return nil
}

// argv is the command with its variables.
func (p *appPlan) argv(e *environment) []string {
	if p.shell != "" {
		return []string{"/bin/sh", "-c", p.shell}
	}
	argv := make([]string, len(p.command))
	for i, part := range p.command {
		argv[i] = expand(part, e.lookup)
	}
	return argv
}

// environ is the environment of the app in the pod of a name, with variables of its own.
func (p *appPlan) environ(set *manifest.Set, inherited []string, name, namespace, account string, own []string) (*environment, error) {
	as := &pod{
		name: name, namespace: namespace, labels: p.template.Labels, annotations: p.template.Annotations,
		node: nodeName(), account: orElse(p.template.Spec.ServiceAccountName, account),
		limits: p.container.Resources.Limits, requests: p.container.Resources.Requests,
		set: set, whose: p.whose, envFlag: p.envFlag, at: p.at.String(),
	}
	e := newEnvironment(inherited)
	return e, as.fill(e, p.container, append(own, p.extra...))
}

// notes are what a run leaves out of the template.
func (p *appPlan) notes() (notes []string) {
	for _, c := range append(slices.Clone(p.template.Spec.InitContainers), p.template.Spec.Containers...) {
		if c.Name != p.container.Name {
			notes = append(notes, fmt.Sprintf("%s: %s: only the container %s is run, not %s", p.at, p.whose, p.container.Name, c.Name))
		}
	}
	if len(p.container.VolumeMounts) > 0 {
		notes = append(notes, fmt.Sprintf("%s: %s: volumes are not mounted", p.at, p.whose))
	}
	return notes
}
