package pool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
)

// pulling is a pool of one ready worker that pulls from orders and returns.
func pulling(change func(orders, returns *pullSource)) *observation {
	o := observed(snapshotOf(1, make1("a")))
	o.pool.Spec.Flows = []string{"orders", "returns"}
	o.sources = append(o.sources, pullSource{name: "returns", flow: builders.MakeFlow("returns", "shop").Obj()})
	change(&o.sources[0], &o.sources[1])
	return o
}

func TestSeveralFlows(t *testing.T) {
	deleting := func(s *pullSource) { s.flow.DeletionTimestamp = ptr.To(metav1.Now()) }
	cases := map[string]struct {
		change   func(orders, returns *pullSource)
		accepted string
		ready    string
		create   bool
		text     []string
	}{
		"all found": {
			change: func(_, _ *pullSource) {}, accepted: "True/FlowFound", ready: "True/WorkersReady", create: true,
		},
		"one missing": {
			change:   func(_, returns *pullSource) { returns.flow = nil },
			accepted: "False/FlowNotFound", ready: "True/WorkersReady", create: true,
			text: []string{`no WorkPullingFlow "returns"`, "the workers pull from orders"},
		},
		"both missing": {
			change:   func(orders, returns *pullSource) { orders.flow, returns.flow = nil, nil },
			accepted: "False/FlowNotFound", ready: "False/FlowNotFound",
			text: []string{`"orders"`, `"returns"`},
		},
		"one suspended": {
			change:   func(orders, _ *pullSource) { orders.flow.Spec.Suspend = v1alpha1.SwitchEnabled },
			accepted: "True/FlowSuspended", ready: "True/WorkersReady", create: true,
			text: []string{`spec.suspend of flow "orders"`},
		},
		"one refuses, one caps": {
			change: func(orders, returns *pullSource) {
				orders.flow.Spec.MaxFlowControlWindow = 10
				returns.flow.Spec.AllowedServiceAccounts = []string{"packer"}
			},
			accepted: "False/ServiceAccountNotAllowed", ready: "True/WorkersReady", create: true,
			text: []string{`flow "returns" does not allow`, `flow "orders" caps`, "the workers pull from orders"},
		},
		"one missing, one going": {
			change: func(orders, returns *pullSource) {
				orders.flow = nil
				deleting(returns)
			},
			accepted: "False/FlowNotFound", ready: "False/FlowNotFound", create: true,
			text: []string{`no WorkPullingFlow "orders"`, `flow "returns" is being deleted`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := pulling(tc.change)
			status, _ := makeStatus(o, podhealth.Problem{})
			for kind, want := range map[string]string{v1alpha1.ConditionFlowAccepted: tc.accepted, v1alpha1.ConditionReady: tc.ready} {
				c := meta.FindStatusCondition(status.Conditions, kind)
				if got := string(c.Status) + "/" + c.Reason; got != want {
					t.Errorf("%s is %s (%s), want %s", kind, got, c.Message, want)
				}
				for _, text := range tc.text {
					if kind == v1alpha1.ConditionFlowAccepted && !strings.Contains(c.Message, text) {
						t.Errorf("FlowAccepted says %q, which lacks %q", c.Message, text)
					}
				}
			}
			if o.mayCreate() != tc.create {
				t.Errorf("may create a worker = %v, want %v", o.mayCreate(), tc.create)
			}
		})
	}
}

// A worker counts once, whichever of its producers know it, and a producer that is silent hides nothing that another tells.
func TestCountsOverSeveralFlows(t *testing.T) {
	bound := func(workers ...*protocolv1.BoundWorker) flowstats.Snapshot {
		return flowstats.Snapshot{Connected: true, Stats: &protocolv1.FlowStats{Workers: workers}}
	}
	o := pulling(func(orders, returns *pullSource) {
		orders.stats = bound(&protocolv1.BoundWorker{PodUid: "a"}, &protocolv1.BoundWorker{PodUid: "b"})
		returns.stats = bound(&protocolv1.BoundWorker{PodUid: "b", InFlight: 3}, &protocolv1.BoundWorker{PodUid: "stranger", InFlight: 1})
	})
	o.snapshot.Workers = snapshotOf(3, make1("a"), make1("b"), make1("c")).Workers
	if registered, busy := o.bound(); *registered != 2 || *busy != 1 {
		t.Errorf("registered %d, busy %d; want 2 and 1", *registered, *busy)
	}
	o.sources[0].stats = flowstats.Snapshot{}
	if registered, busy := o.bound(); *registered != 1 || *busy != 1 {
		t.Errorf("with one producer silent: registered %d, busy %d; want 1 and 1", *registered, *busy)
	}
	o.sources[1].stats = flowstats.Snapshot{}
	if registered, _ := o.bound(); registered != nil {
		t.Error("something is known although no producer reports")
	}
}

func TestConfigOfSeveralFlows(t *testing.T) {
	one, err := configOf(builders.MakePool("packers", "shop", "orders").Obj(), 3)
	if err != nil {
		t.Fatal(err)
	}
	two, err := configOf(builders.MakePool("packers", "shop", "").Flows("returns", "orders").Dedup(64, 0).Obj(), 200)
	if err != nil {
		t.Fatal(err)
	}
	other, err := configOf(builders.MakePool("packers", "shop", "").Flows("orders", "returns").Dedup(64, 0).Obj(), 200)
	if err != nil {
		t.Fatal(err)
	}
	if one.Name != "packers-worker.orders" || two.Name == one.Name || two.Name != other.Name {
		t.Errorf("the documents are called %s, %s and %s", one.Name, two.Name, other.Name)
	}
	if diff := cmp.Diff(other.Data, two.Data); diff != "" {
		t.Errorf("the order of the flows changes the document:\n%s", diff)
	}
	var doc runtimeconfig.Worker
	if err := json.Unmarshal([]byte(two.Data["config.json"]), &doc); err != nil {
		t.Fatal(err)
	}
	want := []runtimeconfig.WorkerFlow{
		{Name: "orders", ProducerAddress: "orders-producer.shop.svc:9443", ProducerHost: "orders-producer.shop.svc"},
		{Name: "returns", ProducerAddress: "returns-producer.shop.svc:9443", ProducerHost: "returns-producer.shop.svc"},
	}
	if diff := cmp.Diff(want, doc.AllFlows()); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	if doc.DedupMaxProducers != 64 || doc.DedupIdleSec != 0 {
		t.Errorf("dedup %d and %d, want 64 and 0", doc.DedupMaxProducers, doc.DedupIdleSec)
	}
	if doc.LeaseRenewSec != 64 {
		t.Errorf("200 workers renew their Leases every %d s, want 64", doc.LeaseRenewSec)
	}
	// What an older sidecar reads.
	if doc.Flow != "orders" || doc.ProducerHost != want[0].ProducerHost {
		t.Errorf("the only flow of an older sidecar is %q at %q", doc.Flow, doc.ProducerHost)
	}
}

// A worker learns how its app takes jobs, and a sidecar that knows of HTTP alone is not misled into posting them.
func TestConfigOfAHandler(t *testing.T) {
	for name, tc := range map[string]struct {
		pool *v1alpha1.WorkerPool
		want runtimeconfig.Worker
	}{
		"http":   {builders.MakePool("packers", "shop", "orders").Handler(8000, "/jobs", 90).Obj(), runtimeconfig.Worker{HandlerPort: 8000, HandlerPath: "/jobs", HandlerTimeoutSec: 90}},
		"stream": {builders.MakePool("packers", "shop", "orders").Streams(30).Obj(), runtimeconfig.Worker{Handler: runtimeconfig.HandlerStream, HandlerTimeoutSec: 30}},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := configOf(tc.pool, 1)
			if err != nil {
				t.Fatal(err)
			}
			var doc runtimeconfig.Worker
			if err := json.Unmarshal([]byte(config.Data["config.json"]), &doc); err != nil {
				t.Fatal(err)
			}
			got := runtimeconfig.Worker{Handler: doc.Handler, HandlerPort: doc.HandlerPort, HandlerPath: doc.HandlerPath, HandlerTimeoutSec: doc.HandlerTimeoutSec}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("handler (-want +got):\n%s", diff)
			}
		})
	}
}

// The document of a set of flows lives as long as a pod reads it.
func TestAWorkersConfigIsFoundInItsPod(t *testing.T) {
	pool := builders.MakePool("packers", "shop", "").Flows("orders", "returns").UID("pool-uid").Obj()
	pod, err := podbuilder.WorkerPod(pool, "runtime", "packers-1")
	if err != nil {
		t.Fatal(err)
	}
	config, err := configOf(pool, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := podbuilder.ConfigOf(pod); got != config.Name {
		t.Errorf("the pod reads %q, the pool writes %q", got, config.Name)
	}
	if got := podbuilder.ConfigOf(&corev1.Pod{}); got != "" {
		t.Errorf("a pod without the runtime reads %q", got)
	}
	if _, labelled := pod.Labels[v1alpha1.LabelFlow]; labelled || pod.Annotations[v1alpha1.AnnotationFlows] != "orders,returns" {
		t.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
	}
	if pod.Labels[v1alpha1.LabelPool] != "packers" {
		t.Errorf("the pool is not among the labels %v", pod.Labels)
	}
}

// The reference lists every reason of FlowAccepted in a table of that condition.
func TestEveryReasonOfFlowAcceptedIsInItsTable(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "conditions.md"))
	if err != nil {
		t.Fatal(err)
	}
	var tables string
	for section := range strings.SplitSeq(string(page), "\n## ") {
		if title, table, _ := strings.Cut(section, "\n"); strings.Contains(title, "FlowAccepted") {
			tables += table
		}
	}
	for _, reason := range severity {
		if !strings.Contains(tables, "| `"+reason+"` |") {
			t.Errorf("%s is in no table of FlowAccepted", reason)
		}
	}
}
