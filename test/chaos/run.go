package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/prober"
)

// Times that nothing here should take.
const (
	recoverLimit = 3 * time.Minute
	drainLimit   = 5 * time.Minute
	stopLimit    = 6 * time.Minute
)

// progressEvery is the time between two lines for people.
const progressEvery = 5 * time.Second

// Run makes a bed, breaks it for a while under load, lets it settle, and judges.
func Run(ctx context.Context, options Options) (report *Report, err error) {
	b, err := Start(ctx, options)
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, b.Stop(stopping))
	}()
	if err != nil {
		return nil, err
	}
	manifest := b.ride(ctx)
	if err := manifest.write(b.Dir); err != nil {
		return nil, err
	}
	if report, err = Judge(b.Dir); err != nil {
		return nil, err
	}
	err = report.Write(b.Dir)
	return report, err
}

func (m Manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestFile), text, 0o600); err != nil {
		return fmt.Errorf("writing what the run was: %w", err)
	}
	return nil
}

// ride loads the flows while faults come, and waits until everything is settled.
func (b *Bed) ride(ctx context.Context) Manifest {
	m := Manifest{Seed: b.Seed, Grace: b.Grace, LeastRate: b.LeastRate, Began: prober.Now()}
	began := time.Now()
	restarts := b.restarts()
	following, stop := context.WithCancel(ctx)
	submitting, enough := context.WithCancel(ctx)
	settling, cancel := context.WithCancel(ctx)
	defer cancel()
	var watchers, loads sync.WaitGroup
	watchers.Go(func() { b.view.follow(following) })
	var standing atomic.Value
	watchers.Go(func() { b.tell(following, began, &standing) })
	failed := make([]error, len(b.flows))
	for i, f := range b.flows {
		m.Flows = append(m.Flows, f.name)
		loads.Go(func() { failed[i] = f.load.Run(settling, submitting) })
	}
	acts, err := b.breakThings(ctx, &standing)
	enough()
	standing.Store("no more faults, no more jobs")
	time.AfterFunc(drainLimit, cancel)
	loads.Wait()
	m.Length, m.Ended = time.Since(began), prober.Now()
	for i, f := range b.flows {
		_, _, wrong := f.load.Books()
		failed[i] = errors.Join(failed[i], wrong)
	}
	m.Wrong = lines(err, errors.Join(failed...), b.settled(ctx), b.unasked(restarts, acts))
	stop()
	watchers.Wait()
	return m
}

// lines are those of errors.
func lines(errs ...error) (out []string) {
	if err := errors.Join(errs...); err != nil {
		out = strings.Split(err.Error(), "\n")
	}
	return out
}

// breakThings carries the plan out until the time is over.
func (b *Bed) breakThings(ctx context.Context, standing *atomic.Value) (acts []Act, err error) {
	journal, err := prober.OpenJournal(filepath.Join(b.Dir, actsFile))
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	standing.Store("the first jobs")
	if !b.recovered(ctx, prober.Now()) {
		return nil, fmt.Errorf("no fault has come, and %s", b.missing(prober.Now()))
	}
	if b.Claim {
		b.flows[0].load.Claim()
	}
	plan, began := NewPlan(b.Seed), time.Now()
	for time.Since(began) < b.Length && ctx.Err() == nil {
		fault := plan.Next()
		if b.Only != "" && !strings.Contains(string(fault.Kind), b.Only) {
			continue
		}
		standing.Store("no fault")
		prober.Pause(ctx, fault.Calm)
		if ctx.Err() != nil {
			break
		}
		b.say("         %s", fault)
		standing.Store(string(fault.Kind))
		done, failed := b.carryOut(ctx, fault, standing)
		acts = append(acts, done...)
		for _, act := range done {
			if err := journal.Append(func(prober.Moment) any { return act }); err != nil {
				return acts, err
			}
		}
		if failed != nil {
			return acts, failed
		}
	}
	return acts, ctx.Err()
}

// carryOut does one fault and waits until everything is as before it. An error ends the run.
func (b *Bed) carryOut(ctx context.Context, f Fault, standing *atomic.Value) ([]Act, error) {
	act := Act{Kind: f.Kind, From: prober.Now()}
	err := b.do(ctx, f, &act)
	act.To = prober.Now()
	if ctx.Err() != nil {
		return nil, ctx.Err() // interrupted: it was undone, and proves nothing
	}
	if err != nil {
		act.Faults = append(act.Faults, err.Error())
	}
	standing.Store("after " + string(f.Kind))
	if b.recovered(ctx, act.To) {
		act.Recovered = prober.Now()
	} else if ctx.Err() == nil {
		act.Faults = append(act.Faults, fmt.Sprintf("not as before after %s: %s", recoverLimit, b.missing(act.To)))
	}
	all := append([]Act{act}, act.beside...)
	for i := range all {
		all[i].Recovered = act.Recovered
		b.say("         %s (%s): %s, recovered in %s", all[i].Kind, all[i].What, all[i].length().Round(time.Second),
			time.Duration(all[i].Recovered-all[i].To).Round(100*time.Millisecond))
		for _, fault := range all[i].Faults {
			b.say("         WRONG: %s", fault)
		}
	}
	if errors.Is(err, errUndo) || act.Recovered == 0 {
		return all, fmt.Errorf("%s: the cluster is not as before, so the run ends here", f.Kind)
	}
	return all, nil
}

// recovered waits until all pods are ready and every flow has confirmed a job that was submitted after a moment.
func (b *Bed) recovered(ctx context.Context, since prober.Moment) bool {
	return prober.Await(ctx, recoverLimit, 500*time.Millisecond, func(context.Context) bool { return b.missing(since) == "" })
}

// missing says what keeps the bed from being as before.
func (b *Bed) missing(since prober.Moment) string {
	what := b.notReady()
	for _, f := range b.flows {
		if !f.load.ConfirmedSince(since) {
			what = append(what, f.name+" has confirmed no new job")
		}
	}
	return strings.Join(what, "; ")
}

// tell says now and then how things are.
func (b *Bed) tell(ctx context.Context, began time.Time, standing *atomic.Value) {
	for ctx.Err() == nil {
		var sum prober.Progress
		for _, f := range b.flows {
			p := f.load.Progress()
			sum.Submitted, sum.Accepted, sum.Settled = sum.Submitted+p.Submitted, sum.Accepted+p.Accepted, sum.Settled+p.Settled
		}
		what, _ := standing.Load().(string)
		b.say("[%5.0fs] accepted %d, settled %d, waiting %d, not accepted yet %d: %s", time.Since(began).Seconds(), sum.Accepted, sum.Settled,
			sum.Accepted-sum.Settled, sum.Submitted-sum.Accepted, what)
		prober.Pause(ctx, progressEvery)
	}
}

// settled waits until the flows say themselves that they are well and hold nothing.
func (b *Bed) settled(ctx context.Context) error {
	const path = `jsonpath={.status.conditions[?(@.type=="Ready")].status} {.status.backlog} {.status.inFlight}`
	var errs []error
	for _, f := range b.flows {
		last := ""
		if !prober.Await(ctx, time.Minute, time.Second, func(ctx context.Context) bool {
			said, err := b.kubectl.Get(ctx, "-n", b.namespace, "get", "workpullingflow", f.name, "-o", path)
			if err != nil {
				said = err.Error()
			}
			last = said
			return said == "True 0 0"
		}) {
			errs = append(errs, fmt.Errorf("at the end the flow %s says of its readiness, backlog and jobs in flight: %q", f.name, last))
		}
	}
	return errors.Join(errs...)
}

// restarts counts those of the containers of every pod, by its UID.
func (b *Bed) restarts() map[string]int {
	out := map[string]int{}
	for _, f := range b.flows {
		for _, role := range []string{v1alpha1.RoleProducer, v1alpha1.RoleWorker} {
			for _, p := range b.view.pods(f.name, role) {
				for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
					out[p.uid()] += int(c.RestartCount)
				}
			}
		}
	}
	return out
}

// unasked finds containers that ended though no fault ended them.
func (b *Bed) unasked(before map[string]int, acts []Act) error {
	asked := map[string]int{}
	for _, a := range acts {
		for _, uid := range a.Killed {
			asked[uid]++
		}
	}
	var errs []error
	for uid, n := range b.restarts() {
		if n-before[uid] > asked[uid] {
			errs = append(errs, fmt.Errorf("the containers of pod %s were started again %d times, and faults ended %d", uid, n-before[uid], asked[uid]))
		}
	}
	return errors.Join(errs...)
}
