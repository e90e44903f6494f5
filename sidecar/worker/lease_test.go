package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// lease is the Lease of the pod at an API server that compares versions.
type lease struct {
	mu     sync.Mutex
	record fencing.LeaseRecord
	count  int
	silent bool
}

var resource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (l *lease) answer(do func() error) (fencing.LeaseRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		return fencing.LeaseRecord{}, errors.New("no answer")
	}
	if err := do(); err != nil {
		return fencing.LeaseRecord{}, err
	}
	return l.record, nil
}

func (l *lease) Read(context.Context) (fencing.LeaseRecord, error) {
	return l.answer(func() error {
		if l.record.Version == "" {
			return apierrors.NewNotFound(resource, "lease")
		}
		return nil
	})
}

func (l *lease) Create(_ context.Context, holder string, _ time.Duration) (fencing.LeaseRecord, error) {
	return l.answer(func() error {
		if l.record.Version != "" {
			return apierrors.NewAlreadyExists(resource, "lease")
		}
		l.set(holder, 1)
		return nil
	})
}

func (l *lease) Hold(_ context.Context, holder string, _ time.Duration, seen fencing.LeaseRecord) (fencing.LeaseRecord, error) {
	return l.answer(func() error {
		switch {
		case l.record.Version == "":
			return apierrors.NewNotFound(resource, "lease")
		case l.record.Version != seen.Version:
			return apierrors.NewConflict(resource, "lease", errors.New("another version"))
		case l.record.Holder == holder:
			l.set(holder, l.record.Transitions)
		default:
			l.set(holder, l.record.Transitions+1)
		}
		return nil
	})
}

func (l *lease) set(holder string, transitions int32) {
	l.count++
	l.record = fencing.LeaseRecord{UID: "lease", Version: fmt.Sprint(l.count), Holder: holder, Transitions: transitions}
}

func (l *lease) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

func (l *lease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.Holder
}

// leased starts a worker that keeps a Lease, and renews it every second.
func leased(t *testing.T, l *lease) *rig {
	t.Helper()
	return start(t, func(r *rig, _ *transporttest.Authority) {
		r.Options.Lease = l
		r.document.LeaseRenewSec = 1
	})
}

func TestAWorkerHoldsItsLeaseBeforeItBinds(t *testing.T) {
	l := &lease{}
	r := leased(t, l)
	transporttest.Eventually(t, "the worker is bound", func() bool { return r.status(t).GetRegistered() })
	if want := fencing.HolderOf(r.Options.Incarnation); l.holder() != want {
		t.Errorf("%q holds the Lease while the worker is bound, want %q", l.holder(), want)
	}
	transporttest.Eventually(t, "the Lease is renewed", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.count > 2
	})
}

// No answer of the API server keeps a worker from its jobs.
func TestAWorkerWorksWithoutTheAPIServer(t *testing.T) {
	l := &lease{silent: true}
	r := leased(t, l)
	r.flow.submit(t, "a")
	transporttest.Eventually(t, "the job is done", func() bool { return r.flow.stats(t).Confirmed == 1 })
	l.change(func() { l.silent = false })
	transporttest.Eventually(t, "the Lease is held once the API server answers", func() bool { return l.holder() != "" })
	l.change(func() { l.silent = true })
	r.flow.submit(t, "b")
	transporttest.Eventually(t, "another job is done", func() bool { return r.flow.stats(t).Confirmed == 2 })
}

// An operator of before says nothing of Leases.
func TestAWorkerHoldsItsLeaseUnderAnOlderOperator(t *testing.T) {
	l := &lease{}
	r := start(t, func(r *rig, _ *transporttest.Authority) { r.Options.Lease = l })
	transporttest.Eventually(t, "the worker is bound", func() bool { return r.status(t).GetRegistered() })
	if want := fencing.HolderOf(r.Options.Incarnation); l.holder() != want {
		t.Errorf("%q holds the Lease, want %q", l.holder(), want)
	}
}

// A process that is over ends, and says why.
func TestAnIncarnationThatIsOverEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(l *lease)
		want string
	}{
		"another process of the pod": {func(l *lease) { l.set(podUID+"/another", l.record.Transitions+1) }, "another process of this pod"},
		"the Lease is deleted":       {func(l *lease) { l.record = fencing.LeaseRecord{} }, "deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lease{}
			r := leased(t, l)
			transporttest.Eventually(t, "the Lease is held", func() bool { return l.holder() != "" })
			l.change(func() { c.end(l) })
			select {
			case err := <-r.ended:
				r.ended <- nil // for the end of the rig
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "incarnation of the worker is over") {
					t.Errorf("the process ended with %v", err)
				}
			case <-time.After(transporttest.Patience):
				t.Fatal("the process goes on")
			}
		})
	}
}

// A process that is over lets what runs end, and does not wait for a flow that listens to it no more.
func TestAnIncarnationThatIsOverWaitsForNoSettlement(t *testing.T) {
	l := &lease{}
	r := start(t, func(r *rig, _ *transporttest.Authority) {
		r.Options.Lease = l
		r.document.LeaseRenewSec = 1
		r.app.hold = make(chan struct{})
		r.StopTimeout = 2 * transporttest.Patience
	})
	r.flow.submit(t, "a")
	transporttest.Eventually(t, "the job runs", func() bool { return r.app.started("a") == 1 })
	l.change(func() { l.record = fencing.LeaseRecord{} })
	r.flow.IncarnationOver(podUID, r.Options.Incarnation.BootNonce, "its Lease was deleted")
	transporttest.Eventually(t, "the process drains", func() bool { return r.status(t).GetDraining() })
	select {
	case err := <-r.ended:
		t.Fatalf("the process ended while the job ran: %v", err)
	case <-time.After(time.Second):
	}
	close(r.app.hold)
	select {
	case err := <-r.ended:
		r.ended <- nil // for the end of the rig
		if err == nil || !strings.Contains(err.Error(), "deleted") {
			t.Errorf("the process ended with %v", err)
		}
	case <-time.After(transporttest.Patience):
		t.Fatal("the process waits for a flow that does not listen")
	}
}
