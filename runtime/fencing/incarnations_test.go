package fencing_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

var leased = delivery.Worker{PodUID: "leased-uid", PodName: "leased", Pool: "pool"}

// withLeases is a cluster with a pod whose sidecar keeps a Lease, and no Lease yet.
func withLeases(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	p := pod(leased.PodName, leased.PodUID, leased.Pool)
	p.Annotations = map[string]string{"workpulling.dev/lease": "Required"}
	if _, err := c.metadata.Resource(pods).Namespace("shop").(metadatafake.MetadataClient).CreateFake(p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "the pod is seen", func() bool { return c.incarnation(leased, "nobody") == transport.LabelLeaseMissing })
	return c
}

// incarnation returns the label of the refusal of a process, "" for none.
func (c *cluster) incarnation(worker delivery.Worker, boot string) transport.Label {
	c.clock.SetTime(c.clock.Now().Add(time.Second)) // another look is within the rate
	if _, err := c.guard.AuthenticateWorker(c.ctx, worker.PodName+"/"+worker.PodUID+"/app"); err != nil {
		return transport.Label(err.Error())
	}
	err := c.guard.AuthenticateIncarnation(c.ctx, worker, boot)
	if refusal, ok := errors.AsType[*transport.Refusal](err); ok {
		return refusal.Label
	}
	return ""
}

func leaseObject(uid, holder string, transitions int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{
			"namespace": "shop", "name": "workpulling-leased-uid", "uid": uid, "labels": map[string]any{"workpulling.dev/role": "worker"},
		},
		"spec": map[string]any{"holderIdentity": holder, "leaseTransitions": transitions},
	}}
}

func (c *cluster) makeLease(t *testing.T, l *unstructured.Unstructured) {
	t.Helper()
	if _, err := c.dynamic.Resource(leases).Namespace("shop").Create(t.Context(), l, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) writeLease(t *testing.T, l *unstructured.Unstructured) {
	t.Helper()
	if _, err := c.dynamic.Resource(leases).Namespace("shop").Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyTheHolderOfTheLeaseMayBind(t *testing.T) {
	c := withLeases(t)
	c.makeLease(t, leaseObject("l", "leased-uid/a", 1))
	if got := c.incarnation(leased, "a"); got != "" {
		t.Errorf("the holder is refused: %s", got)
	}
	if got := c.incarnation(leased, "b"); got != transport.LabelLeaseHeld {
		t.Errorf("another process: %q", got)
	}
	c.writeLease(t, leaseObject("l", "leased-uid/b", 2))
	if got := c.incarnation(leased, "b"); got != "" {
		t.Errorf("the new holder, before the watch tells: %s", got)
	}
	if over := <-c.over; over != "leased-uid/a" {
		t.Errorf("%s is over", over)
	}
	for range 3 {
		if got := c.incarnation(leased, "a"); got != transport.LabelLeaseHeld {
			t.Errorf("the process before: %q", got)
		}
	}
	if got := c.incarnation(delivery.Worker{PodUID: "worker-uid", PodName: "worker"}, "any"); got != "" {
		t.Errorf("a pod of an earlier version: %s", got)
	}
	if len(c.over) != 0 {
		t.Errorf("%s is over besides", <-c.over)
	}
}

// The deletion of a Lease is evidence, which the watch brings.
func TestTheDeletionOfALeaseEndsItsHolder(t *testing.T) {
	c := withLeases(t)
	c.makeLease(t, leaseObject("l", "leased-uid/a", 1))
	transporttest.Eventually(t, "the holder may bind", func() bool { return c.incarnation(leased, "a") == "" })
	there := true
	transporttest.Eventually(t, "the deletion is noticed", func() bool { // the fake drops an event of before the watch
		if there {
			_ = c.dynamic.Resource(leases).Namespace("shop").Delete(t.Context(), "workpulling-leased-uid", metav1.DeleteOptions{})
		} else if len(c.over) == 0 {
			_, _ = c.dynamic.Resource(leases).Namespace("shop").Create(t.Context(), leaseObject("l", "leased-uid/a", 1), metav1.CreateOptions{})
		}
		there = !there
		return len(c.over) > 0 && !there
	})
	if over := <-c.over; over != "leased-uid/a" {
		t.Errorf("%s is over", over)
	}
	if got := c.incarnation(leased, "a"); got != transport.LabelLeaseDeleted {
		t.Errorf("the process whose Lease was deleted: %q", got)
	}
	c.makeLease(t, leaseObject("m", "leased-uid/b", 1))
	if got := c.incarnation(leased, "b"); got != "" {
		t.Errorf("the next process: %s", got)
	}
}

// A silent API server keeps nobody away, and is asked about one worker of many (B-252).
func TestASilentAPIServerKeepsNoWorkerAway(t *testing.T) {
	c := withLeases(t)
	c.makeLease(t, leaseObject("l", "leased-uid/a", 1))
	transporttest.Eventually(t, "the holder may bind", func() bool { return c.incarnation(leased, "a") == "" })
	c.writeLease(t, leaseObject("l", "leased-uid/b", 2))
	if got := c.incarnation(leased, "b"); got != "" {
		t.Fatal(got)
	}
	var asked atomic.Int64
	c.dynamic.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		return true, nil, apierrors.NewInternalError(errors.New("away"))
	})
	for boot, want := range map[string]transport.Label{"a": transport.LabelLeaseHeld, "b": "", "c": ""} {
		if got := c.incarnation(leased, boot); got != want {
			t.Errorf("process %s in an outage: %q, want %q", boot, got, want)
		}
	}
	for range 50 {
		if err := c.guard.AuthenticateIncarnation(t.Context(), leased, "d"); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked.Load(); n > 2 {
		t.Errorf("%d questions to an API server that is away", n)
	}
}

// So many workers at once are not as many questions.
func TestLooksAtLeasesAreLimited(t *testing.T) {
	c := withLeases(t)
	var asked atomic.Int64
	c.dynamic.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		return false, nil, nil
	})
	later := 0
	for range 100 {
		err := c.guard.AuthenticateIncarnation(t.Context(), leased, "x")
		if refusal, ok := errors.AsType[*transport.Refusal](err); !ok || refusal.RetryAfter <= 0 {
			t.Fatalf("%v", err)
		} else if refusal.Label == transport.LabelUnavailable {
			later++
		}
	}
	if n := asked.Load(); n > 20 || later < 80 {
		t.Errorf("%d questions for 100 registrations at once, %d of which were to come later", n, later)
	}
}
