package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
)

func crewPod(name string, ready bool) corev1.Pod {
	pod := podWith(ready)
	pod.Name, pod.UID = name, types.UID(name+"-uid")
	return *pod
}

func standby(pod string) *protocolv1.FlowStats {
	return &protocolv1.FlowStats{PodUid: pod + "-uid", State: runtimeconfig.StateStandby, QueueAvailable: true, Shared: true}
}

// crewed is a flow with three producers, of which the second has the queue.
func crewed() *observation {
	o := &observation{
		flow: builders.MakeFlow("orders", "shop").PostgreSQL("orders-db", 3).Generation(3).Obj(),
		pods: []corev1.Pod{crewPod("p-0", true), crewPod("p-1", true), crewPod("p-2", true)},
	}
	o.reporting(&protocolv1.FlowStats{PodUid: "p-1-uid", State: "Running", QueueAvailable: true, Epoch: 4, Shared: true, Workers: []*protocolv1.BoundWorker{{PodUid: "w"}}})
	o.stats.Standbys = []*protocolv1.FlowStats{standby("p-0"), standby("p-2")}
	o.choosePod()
	return o
}

// withoutOwner is that flow while nobody has the queue.
func (o *observation) withoutOwner(silent bool) *observation {
	o.stats.Stats, o.stats.Connected, o.silent = nil, false, silent
	o.stats.Standbys = append(o.stats.Standbys, standby("p-1"))
	return o
}

func TestCrew(t *testing.T) {
	type want struct {
		conditions map[string]string
		message    string // of the first condition in the list, a part
		crew       v1alpha1.ProducerStatus
	}
	const ready, producer, queue, failed = v1alpha1.ConditionReady, v1alpha1.ConditionProducerAvailable, v1alpha1.ConditionQueueAvailable, v1alpha1.ConditionDeliveryFailed
	for name, c := range map[string]struct {
		o    *observation
		edit func(*observation)
		tell string
		want want
	}{
		"all are there": {
			crewed(), nil, producer,
			want{map[string]string{ready: "True/Serving", producer: "True/ProducerReady", queue: "True/QueueReady"}, "", v1alpha1.ProducerStatus{ActivePod: "p-1", ReadyStandbys: ptr.To[int32](2)}},
		},
		"a standby is not ready": {
			crewed(), func(o *observation) { o.pods[2] = crewPod("p-2", false) }, producer,
			want{map[string]string{ready: "True/Serving", producer: "True/ProducerReady"}, "1 of 2 standbys are ready", v1alpha1.ProducerStatus{ActivePod: "p-1", ReadyStandbys: ptr.To[int32](1)}},
		},
		"a standby cannot reach the queue": {
			crewed(), func(o *observation) { o.stats.Standbys[0].QueueAvailable = false }, producer,
			want{map[string]string{ready: "True/Serving"}, "1 of 2 standbys are ready", v1alpha1.ProducerStatus{ActivePod: "p-1", ReadyStandbys: ptr.To[int32](1)}},
		},
		"nobody has the queue for long": {
			crewed().withoutOwner(true), nil, producer,
			want{map[string]string{ready: "False/NoActiveProducer", producer: "False/NoActiveProducer"}, "3 producers stand by", v1alpha1.ProducerStatus{ReadyStandbys: ptr.To[int32](3)}},
		},
		"the Secret is missing": {
			crewed().withoutOwner(true), func(o *observation) {
				for _, s := range o.stats.Standbys {
					s.QueueAvailable, s.QueueCode, s.QueueMessage = false, runtimeconfig.QueueConnectionMissing, "missing"
				}
			}, queue,
			want{map[string]string{ready: "False/ConnectionSecretMissing", queue: "False/ConnectionSecretMissing"}, "kubectl create secret generic -n shop orders-db --from-literal=dsn=", v1alpha1.ProducerStatus{ReadyStandbys: ptr.To[int32](0)}},
		},
		"nobody gets into the database": {
			crewed().withoutOwner(true), func(o *observation) {
				for _, s := range o.stats.Standbys {
					s.QueueAvailable, s.QueueMessage = false, "password authentication failed"
				}
			}, queue,
			want{map[string]string{ready: "False/StoreUnavailable", queue: "False/StoreUnavailable"}, `password authentication failed; look after the database, or correct Secret orders-db, key "dsn"`, v1alpha1.ProducerStatus{ReadyStandbys: ptr.To[int32](0)}},
		},
		"the owner has lost the database": {
			crewed(), func(o *observation) {
				o.stats.Stats.QueueAvailable, o.stats.Stats.QueueMessage = false, "connection refused"
			}, queue,
			want{map[string]string{ready: "False/StoreUnavailable", queue: "False/StoreUnavailable"}, "connection refused; look after the database", v1alpha1.ProducerStatus{ActivePod: "p-1", ReadyStandbys: ptr.To[int32](2)}},
		},
		"the owner cannot load it again": {
			crewed(), func(o *observation) {
				o.stats.Stats.State, o.stats.Stats.QueueAvailable, o.stats.Stats.QueueMessage = "Loading", false, "connection refused"
			}, queue,
			want{map[string]string{ready: "False/StoreUnavailable", queue: "False/StoreUnavailable"}, "cannot be loaded: connection refused; look after", v1alpha1.ProducerStatus{ActivePod: "p-1", ReadyStandbys: ptr.To[int32](2)}},
		},
		"a changed Secret does not work": {
			crewed(), func(o *observation) { o.stats.Stats.QueueMessage = "the one before is still in use" }, queue,
			want{map[string]string{ready: "True/Serving", queue: "True/QueueReady"}, "the one before is still in use", v1alpha1.ProducerStatus{ActivePod: "p-1", ReadyStandbys: ptr.To[int32](2)}},
		},
		"nobody reaches the database for a minute": {
			crewed().withoutOwner(true), func(o *observation) {
				for _, s := range o.stats.Standbys {
					s.QueueAvailable, s.QueueMessage, s.FailureStage, s.FailureReason = false, "no route to host", "Load", "no route to host"
				}
			}, failed,
			want{map[string]string{ready: "False/LoadFailed", queue: "False/StoreUnavailable", failed: "True/LoadFailed"}, "no route to host; look after the database", v1alpha1.ProducerStatus{ReadyStandbys: ptr.To[int32](0)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.edit != nil {
				c.edit(c.o)
			}
			status, _ := makeStatus(c.o, plan{}, applied{})
			for kind, want := range c.want.conditions {
				got := meta.FindStatusCondition(status.Conditions, kind)
				if text := string(got.Status) + "/" + got.Reason; text != want {
					t.Errorf("%s is %s, want %s (%s)", kind, text, want, got.Message)
				}
			}
			if got := meta.FindStatusCondition(status.Conditions, c.tell).Message; !strings.Contains(got, c.want.message) {
				t.Errorf("%s says %q, want %q in it", c.tell, got, c.want.message)
			}
			if diff := cmp.Diff(&c.want.crew, status.Producer); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Members that stand by are heard before any of them has ever had the queue; those of a flow that was deleted are not.
func TestStandbysOfAQueueThatNobodyEverHadAreHeard(t *testing.T) {
	o := crewed()
	o.flow.UID, o.stats = "this flow", flowstats.Snapshot{}
	r := &Reconciler{Stats: flowstats.NewRegistry(clocktesting.NewFakeClock(time.Unix(0, 0)), time.Second), Clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0)), started: time.Unix(0, 0)}
	for pod, uid := range map[string]string{"p-0": string(o.flow.UID), "p-1": string(o.flow.UID), "former": "another flow"} {
		report := standby(pod)
		report.FlowUid, report.QueueAvailable, report.QueueMessage = uid, false, "password authentication failed"
		r.Stats.Accept(client.ObjectKeyFromObject(o.flow), report)
	}
	r.observeReports(o)
	if len(o.stats.Standbys) != 2 {
		t.Fatalf("%d members are heard, want 2", len(o.stats.Standbys))
	}
	status, _ := makeStatus(o, plan{}, applied{})
	for kind, want := range map[string]string{v1alpha1.ConditionReady: "False/StoreUnavailable", v1alpha1.ConditionQueueAvailable: "False/StoreUnavailable"} {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if got := string(c.Status) + "/" + c.Reason; got != want || !strings.Contains(c.Message, "password authentication failed") {
			t.Errorf("%s is %s: %q, want %s", kind, got, c.Message, want)
		}
	}
}

// A takeover in progress changes no condition but WorkersBound: what was true is repeated until it is over, or has taken too long.
func TestATakeoverIsQuiet(t *testing.T) {
	o := crewed()
	o.flow.Status, _ = makeStatus(o, plan{}, applied{})
	before := o.flow.Status.DeepCopy()
	last := o.stats.Stats
	o.withoutOwner(false).stats.Stats = last
	o.stats.Standbys = o.stats.Standbys[:2]
	after, changed := makeStatus(o, plan{}, applied{})
	for _, transition := range changed {
		if transition.Type != v1alpha1.ConditionWorkersBound {
			t.Errorf("%+v", transition)
		}
	}
	if after.Producer.ActivePod != "p-1" {
		t.Errorf("%+v", after.Producer)
	}
	o.reporting(&protocolv1.FlowStats{PodUid: "p-2-uid", State: "Running", QueueAvailable: true, Epoch: 5, Shared: true})
	o.choosePod()
	after, _ = makeStatus(o, plan{}, applied{})
	if note := takeoverNote(before, &after); !strings.Contains(note, "p-2 took the queue over from p-1") {
		t.Errorf("%q", note)
	}
}

func TestASharedQueueHasALeaseABudgetAndTheRightToThatLease(t *testing.T) {
	shared := objects(builders.MakeFlow("orders", "shop").PostgreSQL("orders-db", 3).Obj(), "", Settings{})
	local := objects(builders.MakeFlow("orders", "shop").Obj(), "", Settings{})
	var of, without []string
	var rights []rbacv1.PolicyRule
	for _, object := range shared {
		switch o := object.(type) {
		case *coordinationv1.Lease:
			of = append(of, "Lease/"+o.Name)
		case *policyv1.PodDisruptionBudget:
			of = append(of, "Budget/"+o.Name)
		case *rbacv1.Role:
			rights = o.Rules
		}
	}
	for _, object := range local {
		switch o := object.(type) {
		case *coordinationv1.Lease, *policyv1.PodDisruptionBudget:
			without = append(without, fmt.Sprintf("%T", o))
		case *rbacv1.Role:
			for _, rule := range o.Rules {
				without = append(without, rule.Resources...)
				if slices.Contains(rule.Resources, "leases") && slices.Contains(rule.Verbs, "patch") {
					t.Errorf("a Local queue writes Leases: %v", rule)
				}
			}
		}
	}
	if diff := cmp.Diff([]string{"Lease/orders-producer", "Budget/orders-producer"}, of); diff != "" {
		t.Error(diff)
	}
	want := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"orders-producer"}, Verbs: []string{"patch"}}
	if diff := cmp.Diff(want, rights[len(rights)-1]); diff != "" {
		t.Error(diff)
	}
	if len(without) != 4 {
		t.Errorf("a Local queue has %v", without)
	}
}

func TestUnreachableNodes(t *testing.T) {
	for name, c := range map[string]struct {
		taints []corev1.Taint
		want   bool
	}{
		"fine":                     {nil, false},
		"says that it is not well": {[]corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}}, false},
		"says nothing any more":    {[]corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}, true},
	} {
		if got := unreachable(&corev1.Node{Spec: corev1.NodeSpec{Taints: c.taints}}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
