package operator

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rights are namespaces that may be listed in.
type rights struct {
	client.Reader
	mu      sync.Mutex
	granted []string
	outage  error
}

func (r *rights) List(_ context.Context, _ client.ObjectList, options ...client.ListOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	applied := (&client.ListOptions{}).ApplyOptions(options)
	if r.outage == nil && !slices.Contains(r.granted, applied.Namespace) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "workpullingflows"}, "", errors.New("no role"))
	}
	return r.outage
}

func TestLeaveOut(t *testing.T) {
	for name, c := range map[string]struct {
		rights        *rights
		watched, left []string
		wantErr       bool
	}{
		"all are there":     {&rights{granted: []string{"shop", "store"}}, []string{"shop", "store"}, nil, false},
		"one is missing":    {&rights{granted: []string{"store"}}, []string{"store"}, []string{"shop"}, false},
		"none is there":     {&rights{}, []string{"shop", "store"}, nil, false},
		"nothing is known":  {&rights{outage: errors.New("down")}, nil, nil, true},
		"others are no use": {&rights{granted: []string{"other"}}, []string{"shop", "store"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			watched, left, err := leaveOut(t.Context(), c.rights, []string{"shop", "store"}, logr.Discard())
			if diff := cmp.Diff([][]string{c.watched, c.left}, [][]string{watched, left}); diff != "" || (err != nil) != c.wantErr {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// The operator ends when a namespace that it left out can be watched, and not before.
func TestAnAbsentNamespaceArrives(t *testing.T) {
	granted, clock := &rights{outage: errors.New("down")}, clocktesting.NewFakeClock(time.Now())
	done := make(chan error, 1)
	go func() { done <- (&absent{[]string{"shop"}, granted, clock}).Start(t.Context()) }()
	for _, change := range []func(){func() {}, func() { granted.outage = nil }, func() { granted.granted = []string{"shop"} }} {
		select {
		case err := <-done:
			t.Fatalf("ended: %v", err)
		default:
		}
		granted.mu.Lock()
		change()
		granted.mu.Unlock()
		for !clock.HasWaiters() {
			runtime.Gosched()
		}
		clock.Step(absentEvery)
	}
	select {
	case err := <-done:
		if !errors.Is(err, errArrived) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on without the namespace")
	}
}
