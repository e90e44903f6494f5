package standalone

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/manifest"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/sharedsecret"
	"github.com/workpulling/workpulling/sidecar/producer"
)

// ErrDeadLetters says that a run with Options.ExitWhenEmpty has ended with dead letters left.
var ErrDeadLetters = errors.New("dead letters are left: a person has to look at them")

// errDone ends a run that has nothing left to do.
var errDone = errors.New("nothing is left to do")

// run is one run.
type run struct {
	Options
	plan          plan
	data          *data
	secret        sharedsecret.Dir
	authenticator *sharedsecret.Authenticator
	guard         *guard
	ports         *ports
	producers     map[string]*producer.Sidecar
	replicas      []*replica
	sources       []*source
	door          *door
	paces         map[string]*pace
}

// Run runs what the manifests say until ctx ends, and then stops it in order, which takes as long as the drain of its pools may take. It
// returns nil after that, ErrDeadLetters, or what is wrong.
func Run(ctx context.Context, options Options) error {
	options.setDefaults()
	set, err := manifest.Load(ctx, options.Manifests, options.Stdin)
	if err != nil {
		return err
	}
	planned, err := newPlan(&set, options)
	if err != nil {
		return err
	}
	r := &run{Options: options, plan: planned, producers: map[string]*producer.Sidecar{}, paces: map[string]*pace{}}
	if r.data, err = openData(options.Data); err != nil {
		return err
	}
	defer r.data.close()
	if err := r.prepare(); err != nil {
		return err
	}
	defer r.ports.close()
	defer r.guard.close()
	r.greet()
	return r.serve(ctx)
}

// prepare makes all parts.
func (r *run) prepare() (err error) {
	if r.secret, err = sharedsecret.Make(r.data.run("identity"), r.Clock.Now()); err != nil {
		return err
	}
	if r.authenticator, err = r.secret.Authenticator(); err != nil {
		return err
	}
	if err := r.secret.WriteToken(r.data.run("token"), submitter); err != nil {
		return err
	}
	if r.ports, err = newPorts(r.random()); err != nil {
		return err
	}
	flows := map[string]http.Handler{}
	for _, flow := range r.plan.flows {
		made, err := r.newProducer(flow)
		if err != nil {
			return err
		}
		r.producers[flow.Name], flows[flow.Name] = made, made.Intake()
	}
	token, err := r.secret.Token(submitter)
	if err != nil {
		return err
	}
	if r.door, err = openDoor(flows, token, r.data.run("token"), r.data.run("intake.sock"), r.Listen, r.OpenIntake); err != nil {
		return err
	}
	if r.guard, err = startGuard(r.Guard, r.Clock, r.Screen.warn); err != nil {
		return err
	}
	if err := r.makeApps(); err != nil {
		r.guard.close()
		return err
	}
	return nil
}

// makeApps makes the workers with their apps, and the producing apps.
func (r *run) makeApps() error {
	for i := range r.plan.pools {
		pool := &r.plan.pools[i]
		for number := range pool.replicas {
			made, err := r.newReplica(pool, number)
			if err != nil {
				return err
			}
			r.replicas = append(r.replicas, made)
		}
	}
	for i := range r.plan.sources {
		made, err := r.newSource(&r.plan.sources[i])
		if err != nil {
			return err
		}
		r.sources = append(r.sources, made)
	}
	return nil
}

// serve starts the parts, waits for the end, and stops them from the outside in.
func (r *run) serve(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	producers, workers, doors, sources := newLayer(end), newLayer(end), newLayer(end), newLayer(end)
	for _, p := range r.producers {
		producers.start(p.Run)
	}
	for _, w := range r.replicas {
		workers.start(w.run)
	}
	doors.start(r.door.run)
	for _, s := range r.sources {
		sources.start(s.run)
	}
	watch := newLayer(end)
	watch.start(r.watch)

	<-ctx.Done()
	cause := context.Cause(ctx)
	if !errors.Is(cause, errDone) {
		r.Screen.say("Stopping: workers finish what they run; press Ctrl-C again to end at once")
	}
	sources.end()
	doors.end()
	workers.end()
	watch.end()
	left := r.statuses(context.WithoutCancel(ctx))
	producers.end()
	return r.conclude(cause, left)
}

// conclude says what is left, and turns the cause of the end into the result of the run.
func (r *run) conclude(cause error, left []Status) error {
	r.Screen.show(left)
	stored, letters := 0, int64(0)
	for _, status := range left {
		stored += status.Stored + status.InFlight
		letters += status.DeadLetters
	}
	if stored > 0 {
		r.Screen.say("%d jobs are left; the next run goes on with those that a Local or PostgreSQL queue holds", stored)
	}
	switch {
	case errors.Is(cause, errDone) && letters > 0:
		return ErrDeadLetters
	case errors.Is(cause, errDone), errors.Is(cause, context.Canceled):
		return nil
	}
	return cause
}

// watch shows the status until ctx ends, and ends the run when nothing is left, if it is to.
func (r *run) watch(ctx context.Context) error {
	var still stillness
	ticker := r.Clock.NewTicker(r.Screen.every())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		statuses := r.statuses(ctx)
		if ctx.Err() != nil {
			return nil
		}
		r.Screen.show(statuses)
		if r.ExitWhenEmpty > 0 && still.after(r.ExitWhenEmpty, r.Clock.Now(), statuses) {
			return errDone
		}
	}
}

// statuses are the figures of all flows, in the order of the manifests.
func (r *run) statuses(ctx context.Context) []Status {
	now := r.Clock.Now()
	var out []Status
	for _, flow := range r.plan.flows {
		status := Status{Time: now, Flow: flow.Name, State: stateLoading}
		if stats, err := r.producers[flow.Name].Stats(ctx); err == nil {
			status = statusOf(flow.Name, now, stats)
		}
		if r.paces[flow.Name] == nil {
			r.paces[flow.Name] = &pace{}
		}
		status.JobsPerSecond = r.paces[flow.Name].add(now, status.Confirmed)
		for _, w := range r.replicas {
			if w.pulls(flow.Name) {
				status.Workers++
				if w.ready(now) {
					status.WorkersReady++
				}
			}
		}
		out = append(out, status)
	}
	return out
}

// greet says what runs, what does not, and how to submit.
func (r *run) greet() {
	for _, note := range r.plan.notes {
		r.Screen.say("%s", note)
	}
	for _, pool := range r.plan.pools {
		r.Screen.say("Pool %s: %d workers pull from %s", pool.Name, pool.replicas, strings.Join(pool.Spec.Flows, " and "))
	}
	for _, source := range r.plan.sources {
		r.Screen.say("Flow %s: its producing app submits to it", source.Name)
	}
	for _, flow := range r.plan.flows {
		r.Screen.say("Flow %s: %s. Submit a job, each under a key of its own:", flow.Name, r.keeps(flow))
		for _, line := range r.door.invitation(flow.Name, r.data.run("token"), r.OpenIntake) {
			r.Screen.say("    %s", line)
		}
	}
}

// keeps says where a flow has its jobs.
func (r *run) keeps(flow manifest.Flow) string {
	switch flow.Spec.Queue.Type {
	case v1alpha1.QueueMemory:
		return "jobs are kept in memory and lost at the end of this run"
	case v1alpha1.QueuePostgreSQL:
		return "jobs are kept in PostgreSQL"
	case v1alpha1.QueueLocal:
	}
	return "jobs are kept in " + r.data.flowPath(flow)
}

func (r *run) secretFile(name string) string { return filepath.Join(string(r.secret), name) }

func (r *run) random() float64 { return endpoint.CryptoRandom{}.Float64() }
