package standalone

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workpulling/workpulling/internal/manifest"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

const loopback = "127.0.0.1"

// plan is what a run will start.
type plan struct {
	set   *manifest.Set
	flows []manifest.Flow
	pools []poolPlan
	// notes are what a person should know: what the manifests ask for and a run does not do.
	notes []string
}

// poolPlan is one pool.
type poolPlan struct {
	manifest.Pool
	replicas  int
	container corev1.Container
	// command has its variables unexpanded; shell is there instead where a person gave one.
	command []string
	shell   string
	// dir is where the app runs; empty is the current directory.
	dir string
	// port is the only port that the app can listen on; 0 gives each replica one of its own.
	port int
	// extra are variables of Options.Environment.
	extra []string
	// grace is how long the app has after SIGTERM.
	grace time.Duration
}

// newPlan checks that the manifests can be run as the options say. The error joins all that stands in the way.
func newPlan(set *manifest.Set, o Options) (plan, error) {
	p := plan{set: set, flows: set.Flows}
	var errs []error
	flows := map[string]manifest.Flow{}
	for _, flow := range set.Flows {
		if before, twice := flows[flow.Name]; twice {
			errs = append(errs, fmt.Errorf("%s: a flow %s is there already, at %s: flows of one run need names of their own, whatever their namespaces", flow.At, flow.Name, before.At))
			continue
		}
		flows[flow.Name] = flow
		errs = append(errs, p.checkConnection(flow, o))
	}
	pools := map[string]manifest.Pool{}
	for _, pool := range set.Pools {
		if before, twice := pools[pool.Name]; twice {
			errs = append(errs, fmt.Errorf("%s: a pool %s is there already, at %s: pools of one run need names of their own, whatever their namespaces", pool.At, pool.Name, before.At))
			continue
		}
		pools[pool.Name] = pool
		planned, err := newPoolPlan(pool, flows, o)
		errs = append(errs, err)
		p.pools = append(p.pools, planned)
	}
	errs = append(errs, unknown("--replicas", o.Replicas, pools), unknown("--command", o.Commands, pools), unknown("--port", o.Ports, pools),
		unknown("--env", o.Environment, pools), unknown("--dsn", o.Connections, flows))
	p.note()
	return p, errors.Join(errs...)
}

// unknown refuses what is said about a name that is not in the manifests.
func unknown[V, T any](flag string, said map[string]V, there map[string]T) error {
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if _, ok := there[name]; !ok {
			return fmt.Errorf("%s names %s, which is not in the manifests: there are %s", flag, name,
				orElse(strings.Join(slices.Sorted(maps.Keys(there)), ", "), "none"))
		}
	}
	return nil
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func newPoolPlan(pool manifest.Pool, flows map[string]manifest.Flow, o Options) (poolPlan, error) {
	p := poolPlan{Pool: pool, replicas: 1, port: o.Ports[pool.Name], extra: o.Environment[pool.Name], grace: grace(pool, o)}
	if pool.Spec.Replicas != nil {
		p.replicas = int(*pool.Spec.Replicas)
	}
	if replicas, ok := o.Replicas[pool.Name]; ok {
		p.replicas = replicas
	}
	var errs []error
	for _, name := range pool.Spec.Flows {
		if flow, ok := flows[name]; !ok || flow.Namespace != pool.Namespace {
			errs = append(errs, fmt.Errorf("%s: pool %s pulls from the flow %s of namespace %s, which is not in the manifests: add it with -f",
				pool.At, pool.Name, name, pool.Namespace))
		}
	}
	if pool.Spec.Handler.HTTP == nil && !p.streams() {
		errs = append(errs, fmt.Errorf("%s: pool %s has a handler that this version does not know", pool.At, pool.Name))
	}
	if p.port != 0 && p.replicas > 1 {
		errs = append(errs, fmt.Errorf("--port %s=%d: %d replicas cannot share one port; let the app listen on the port in the variable PORT, or run one with --replicas %s=1",
			pool.Name, p.port, p.replicas, pool.Name))
	}
	p.container = appContainer(pool)
	errs = append(errs, p.findCommand(o))
	return p, errors.Join(errs...)
}

// appContainer is the container that handles jobs: the one that is called app, or else the one that names the handler's port, or else the first.
func appContainer(pool manifest.Pool) corev1.Container {
	containers := pool.Spec.Template.Spec.Containers
	if at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "app" }); at >= 0 {
		return containers[at]
	}
	at := slices.IndexFunc(containers, func(c corev1.Container) bool {
		return pool.Spec.Handler.HTTP != nil && slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
			return p.ContainerPort == pool.Spec.Handler.HTTP.Port
		})
	})
	return containers[max(at, 0)] // the schema asks for one container at least
}

// findCommand says what the app is started with.
func (p *poolPlan) findCommand(o Options) error {
	if p.shell = o.Commands[p.Name]; p.shell != "" {
		return nil
	}
	if len(p.container.Command) == 0 {
		return fmt.Errorf("%s: pool %s: its container %s names the image %s and no command, and images are not run here: say what to start, for example\n"+
			"\t--command %s='python3 app.py'", p.At, p.Name, p.container.Name, p.container.Image, p.Name)
	}
	p.command = append(slices.Clone(p.container.Command), p.container.Args...)
	p.dir = p.At.Dir
	if dir := p.container.WorkingDir; dir != "" {
		if p.dir = dir; !filepath.IsAbs(dir) {
			p.dir = filepath.Join(p.At.Dir, dir)
		}
		if info, err := os.Stat(p.dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s: pool %s: the workingDir %s of its container %s is no directory of this machine: say what to start with --command %s='…', which runs in the current directory",
				p.At, p.Name, dir, p.container.Name, p.Name)
		}
	}
	return p.checkProgram()
}

// checkProgram says early that a program is not there.
func (p *poolPlan) checkProgram() error {
	program := p.command[0]
	if strings.Contains(program, "$(") {
		return nil
	}
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(p.dir, program)
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%s: pool %s: the command of its container %s cannot be started on this machine: %w; say what to start with --command %s='…'",
			p.At, p.Name, p.container.Name, err, p.Name)
	}
	return nil
}

// grace is what the pod's grace period has beyond the drain.
func grace(pool manifest.Pool, o Options) time.Duration {
	switch seconds := pool.Spec.Template.Spec.TerminationGracePeriodSeconds; {
	case o.Grace > 0:
		return o.Grace
	case seconds != nil:
		return time.Duration(*seconds-int64(pool.Spec.Drain.TimeoutSeconds)) * time.Second
	}
	return defaultGrace
}

// streams says that the app opens a stream to its worker instead of listening.
func (p *poolPlan) streams() bool { return p.Spec.Handler.Stream != nil }

// drain is how long a worker may take to finish what it runs.
func (p *poolPlan) drain() time.Duration {
	return time.Duration(p.Spec.Drain.TimeoutSeconds) * time.Second
}

// name is that of a replica, and of the pod that it stands for.
func (p *poolPlan) name(replica int) string { return p.Name + "-" + strconv.Itoa(replica) }

// environ is the environment of a replica whose app is to listen on port, or to open its stream to socket.
func (p *poolPlan) environ(set *manifest.Set, inherited []string, replica, port int, socket string) (*environment, error) {
	template := p.Spec.Template
	own := append([]string{"PORT=" + strconv.Itoa(port), "HOSTNAME=" + p.name(replica)}, p.extra...)
	if p.streams() {
		own = append(own, runtimeconfig.EnvSocket+"="+socket)
	}
	as := &pod{
		name: p.name(replica), namespace: p.Namespace, labels: template.Labels, annotations: template.Annotations,
		node: nodeName(), account: orElse(template.Spec.ServiceAccountName, "default"),
		limits: p.container.Resources.Limits, requests: p.container.Resources.Requests,
		set: set, pool: p.Name, at: p.At.String(),
	}
	e := newEnvironment(inherited)
	return e, as.fill(e, p.container, own)
}

// argv is the command of a replica.
func (p *poolPlan) argv(e *environment) []string {
	if p.shell != "" {
		return []string{"/bin/sh", "-c", p.shell}
	}
	argv := make([]string, len(p.command))
	for i, part := range p.command {
		argv[i] = expand(part, e.lookup)
	}
	return argv
}

// note collects what a run leaves out.
func (p *plan) note() {
	for _, skipped := range p.set.Skipped {
		p.notes = append(p.notes, skipped.String()+" is not needed here: skipped")
	}
	served := map[string]bool{}
	for _, pool := range p.pools {
		for _, flow := range pool.Spec.Flows {
			served[flow] = true
		}
		spec := pool.Spec.Template.Spec
		for _, c := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
			if c.Name != pool.container.Name {
				p.notes = append(p.notes, fmt.Sprintf("%s: pool %s: only the container %s is run, not %s", pool.At, pool.Name, pool.container.Name, c.Name))
			}
		}
		if len(pool.container.VolumeMounts) > 0 {
			p.notes = append(p.notes, fmt.Sprintf("%s: pool %s: volumes are not mounted", pool.At, pool.Name))
		}
	}
	for _, flow := range p.flows {
		if !served[flow.Name] {
			p.notes = append(p.notes, fmt.Sprintf("%s: no pool pulls from the flow %s: its jobs will wait", flow.At, flow.Name))
		}
		if flow.Spec.Producer.Template != nil {
			p.notes = append(p.notes, fmt.Sprintf("%s: flow %s: the producing app of its template is not run; start it yourself and let it submit here", flow.At, flow.Name))
		}
	}
}
