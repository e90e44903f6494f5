//go:build integration

package operator

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func nestedSlice(object map[string]any, field string) ([]any, bool, error) {
	return unstructured.NestedSlice(object, field)
}

// rename replaces a name in the resourceNames of a rule.
func rename(rule any, from, to string) {
	fields, ok := rule.(map[string]any)
	if !ok {
		return
	}
	names, _ := fields["resourceNames"].([]any)
	for i := range names {
		if names[i] == from {
			names[i] = to
		}
	}
}

// newNamespace makes a namespace that goes with the spec.
func newNamespace(ctx SpecContext) string {
	GinkgoHelper()
	namespace, err := env.Namespace(ctx, "operator")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(env.DeleteNamespace(ctx, namespace)).To(Succeed()) })
	return namespace
}

// workers lists the worker pods of a pool that are not being deleted, by name.
func workers(ctx context.Context, namespace, pool string) []corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(env.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelPool: pool})).To(Succeed())
	live := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(live, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return live
}

func uids(pods []corev1.Pod) []string {
	var list []string
	for _, p := range pods {
		list = append(list, string(p.UID))
	}
	slices.Sort(list)
	return list
}

func getPool(ctx context.Context, namespace, name string) *v1alpha1.WorkerPool {
	GinkgoHelper()
	pool := &v1alpha1.WorkerPool{}
	Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pool)).To(Succeed())
	return pool
}

func getFlow(ctx context.Context, namespace, name string) *v1alpha1.WorkPullingFlow {
	GinkgoHelper()
	flow := &v1alpha1.WorkPullingFlow{}
	Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, flow)).To(Succeed())
	return flow
}

// edit changes the spec of a pool.
func edit(ctx context.Context, namespace, name string, change func(*v1alpha1.WorkerPool)) {
	GinkgoHelper()
	pool := getPool(ctx, namespace, name)
	before := pool.DeepCopy()
	change(pool)
	Expect(env.Client.Patch(ctx, pool, client.MergeFrom(before))).To(Succeed())
}

// condition is "status/reason" of a condition.
func condition(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "absent"
	}
	return string(c.Status) + "/" + c.Reason
}

func poolCondition(ctx context.Context, namespace, name, kind string) func() string {
	return func() string { return condition(getPool(ctx, namespace, name).Status.Conditions, kind) }
}

func flowCondition(ctx context.Context, namespace, name, kind string) func() string {
	return func() string { return condition(getFlow(ctx, namespace, name).Status.Conditions, kind) }
}

func exists(ctx context.Context, obj client.Object) func() bool {
	return func() bool { return env.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj) == nil }
}

const second = time.Second

var zero = resource.MustParse("0")

// getFlowOrNil returns nil for a flow that is gone.
func getFlowOrNil(ctx context.Context, namespace, name string) *v1alpha1.WorkPullingFlow {
	flow := &v1alpha1.WorkPullingFlow{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, flow); err != nil {
		return nil
	}
	return flow
}

func decodeProducer(text string) (runtimeconfig.Producer, error) {
	var document runtimeconfig.Producer
	err := json.Unmarshal([]byte(text), &document)
	return document, err
}
