package standalone

import (
	"errors"
	"fmt"
	"maps"
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
	// sources are the producing apps that can be started.
	sources []sourcePlan
	// notes are what a person should know: what the manifests ask for and a run does not do.
	notes []string
}

// poolPlan is one pool.
type poolPlan struct {
	manifest.Pool
	appPlan
	replicas int
	// port is the only port that the app can listen on; 0 gives each replica one of its own.
	port int
}

// sourcePlan is the producing app of a flow.
type sourcePlan struct {
	manifest.Flow
	appPlan
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
		errs = append(errs, p.checkConnection(flow, o), p.addSource(flow, o))
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
		unknown("--env", o.Environment, pools), unknown("--dsn", o.Connections, flows),
		unknown("--producer-command", o.ProducerCommands, flows), unknown("--producer-env", o.ProducerEnvironment, flows))
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
	p := poolPlan{Pool: pool, replicas: 1, port: o.Ports[pool.Name], appPlan: appPlan{
		whose: "pool " + pool.Name, commandFlag: "--command " + pool.Name, envFlag: "--env " + pool.Name,
		at: pool.At, template: pool.Spec.Template, shell: o.Commands[pool.Name], extra: o.Environment[pool.Name],
		grace: grace(pool.Spec.Template, pool.Spec.Drain.TimeoutSeconds, o),
	}}
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
	errs = append(errs, p.findCommand())
	return p, errors.Join(errs...)
}

// addSource adds the producing app of a flow, if there is one and a command for it.
func (p *plan) addSource(flow manifest.Flow, o Options) error {
	template := flow.Spec.Producer.Template
	if template == nil {
		if o.ProducerCommands[flow.Name] != "" {
			return fmt.Errorf("%s: flow %s has no producer.template, so there is no producing app to start with --producer-command", flow.At, flow.Name)
		}
		return nil
	}
	s := sourcePlan{Flow: flow, appPlan: appPlan{
		whose: "the producing app of flow " + flow.Name, commandFlag: "--producer-command " + flow.Name, envFlag: "--producer-env " + flow.Name,
		at: flow.At, template: *template, container: template.Spec.Containers[0], shell: o.ProducerCommands[flow.Name],
		extra: o.ProducerEnvironment[flow.Name], grace: grace(*template, 0, o),
	}}
	if at := slices.IndexFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.Name == "app" }); at >= 0 {
		s.container = template.Spec.Containers[at]
	}
	if !s.named() { // the flow is of use without it
		p.notes = append(p.notes, fmt.Sprintf("%s: flow %s: the container %s of its producing app names no command, and images are not run: say what to start with %s='…', or submit yourself",
			flow.At, flow.Name, s.container.Name, s.commandFlag))
		return nil
	}
	p.sources = append(p.sources, s)
	return p.sources[len(p.sources)-1].findCommand()
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

// grace is what the pod's grace period has beyond the drain.
func grace(template corev1.PodTemplateSpec, drainSeconds int32, o Options) time.Duration {
	switch seconds := template.Spec.TerminationGracePeriodSeconds; {
	case o.Grace > 0:
		return o.Grace
	case seconds != nil:
		return time.Duration(*seconds-int64(drainSeconds)) * time.Second
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

// environment is that of a replica whose app is to listen on port, or to open its stream to socket.
func (p *poolPlan) environment(set *manifest.Set, inherited []string, replica, port int, socket string) (*environment, error) {
	own := []string{"PORT=" + strconv.Itoa(port), "HOSTNAME=" + p.name(replica)}
	if p.streams() {
		own = append(own, runtimeconfig.EnvSocket+"="+socket)
	}
	return p.environ(set, inherited, p.name(replica), p.Namespace, "default", own)
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
		p.notes = append(p.notes, pool.notes()...)
	}
	for _, source := range p.sources {
		p.notes = append(p.notes, source.notes()...)
	}
	for _, flow := range p.flows {
		if !served[flow.Name] {
			p.notes = append(p.notes, fmt.Sprintf("%s: no pool pulls from the flow %s: its jobs will wait", flow.At, flow.Name))
		}
	}
}
