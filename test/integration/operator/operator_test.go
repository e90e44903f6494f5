//go:build integration

package operator

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	operatorpkg "github.com/workpulling/workpulling/internal/operator"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/test/builders"
)

// lag is how late the lagging cache is.
const lag = 3 * time.Second

// lagging delays every event of a watch of pods: the cache of such an operator is that far behind.
func lagging(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && strings.HasSuffix(r.URL.Path, "/pods") && r.URL.Query().Get("watch") != "" {
			response.Body = delayed(response.Body)
		}
		return response, err
	})
}

// delayed passes on what source gives, each piece lag after it came.
func delayed(source io.ReadCloser) io.ReadCloser {
	type piece struct {
		data []byte
		at   time.Time
	}
	pieces := make(chan piece, 1<<16)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 1<<16)
			n, err := source.Read(buffer)
			pieces <- piece{buffer[:n], time.Now().Add(lag)}
			if err != nil {
				return
			}
		}
	}()
	out, in := io.Pipe()
	go func() {
		defer source.Close()
		for p := range pieces {
			<-time.After(time.Until(p.at))
			if _, err := in.Write(p.data); err != nil {
				return
			}
		}
		in.Close()
	}()
	return out
}

// replaceOperator runs another operator instead of the usual one, for the length of the spec.
func replaceOperator(change func(*rest.Config) *rest.Config, image string) {
	GinkgoHelper()
	options := operatorOptions()
	if image != "" {
		options.RuntimeImage = image
	}
	replaceOperatorBy(change(rest.CopyConfig(operatorConfig)), options)
}

// replaceOperatorBy is replaceOperator with any options. A spec may do it more than once.
func replaceOperatorBy(config *rest.Config, options operatorpkg.Options) {
	GinkgoHelper()
	stopOperator()
	stopOperator = startOperator(config, options)
	DeferCleanup(func() {
		stopOperator()
		stopOperator = startOperator(operatorConfig, operatorOptions())
	})
}

var _ = Describe("An operator", func() {
	It("never makes a worker too many, however late its cache is", Serial, func(ctx SpecContext) {
		replaceOperator(func(c *rest.Config) *rest.Config { c.Wrap(lagging); return c }, "")
		namespace := newNamespace(ctx)
		newNode(namespace)
		Expect(env.Client.Create(ctx, builders.MakeFlow(flowName, namespace).Memory().DeletionPolicy(v1alpha1.DeletionDiscard).Obj())).To(Succeed())
		pool := builders.MakePool(poolName, namespace, flowName).Obj()
		pool.Spec.Replicas = ptr.To[int32](6)
		Expect(env.Client.Create(ctx, pool)).To(Succeed())
		Eventually(func() []corev1.Pod { return workers(ctx, namespace, poolName) }).Should(HaveLen(6))
		// Every edit is one more reconcile that would like to make pods.
		for window := range int32(10) {
			edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) { p.Spec.FlowControlWindow = 10 + window })
			Consistently(func() int { return len(workers(ctx, namespace, poolName)) }).WithTimeout(300 * time.Millisecond).Should(Equal(6))
		}
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).WithTimeout(60 * second).Should(Equal("True/WorkersReady"))
		Expect(workers(ctx, namespace, poolName)).To(HaveLen(6))
	})

	It("of a newer version restarts nothing on its own", Serial, func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 2)
		before := workers(ctx, namespace, poolName)
		set := &appsv1.StatefulSet{ObjectMeta: named(namespace, "orders-producer")}
		Eventually(exists(ctx, set)).Should(BeTrue())
		generation := set.Generation

		replaceOperator(func(c *rest.Config) *rest.Config { return c }, "workpulling/runtime:newer")
		scale(ctx, namespace, 3)
		Eventually(func() []corev1.Pod { return workers(ctx, namespace, poolName) }).Should(HaveLen(3))
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("True/WorkersReady"))
		Expect(uids(workers(ctx, namespace, poolName))).To(ContainElements(uids(before)))
		Expect(exists(ctx, set)()).To(BeTrue())
		Expect(set.Generation).To(Equal(generation))

		edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) { p.Spec.Runtime.UpdatePolicy = v1alpha1.UpdateRolling })
		editFlow(ctx, namespace, func(f *v1alpha1.WorkPullingFlow) { f.Spec.Runtime.UpdatePolicy = v1alpha1.UpdateRolling })
		Eventually(func() []string { return uids(workers(ctx, namespace, poolName)) }).ShouldNot(ContainElement(BeElementOf(uids(before))))
		Eventually(func() string { exists(ctx, set)(); return set.Spec.Template.Spec.Containers[0].Image }).Should(Equal("workpulling/runtime:newer"))
	})

	It("lets a real HorizontalPodAutoscaler scale, and mirrors what it says", func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 1)
		Expect(env.Client.Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named(namespace, "packers"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindWorkerPool, Name: poolName},
			MinReplicas:    ptr.To[int32](3), MaxReplicas: 5,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
			}}},
		}})).To(Succeed())
		Eventually(func() []corev1.Pod { return workers(ctx, namespace, poolName) }).Should(HaveLen(3))
		// There are no metrics in this cluster, and the autoscaler says so.
		Eventually(func() string {
			edit(ctx, namespace, poolName, func(p *v1alpha1.WorkerPool) { p.Spec.FlowControlWindow++ })
			return poolCondition(ctx, namespace, poolName, v1alpha1.ConditionScalingActive)()
		}).WithPolling(second).Should(Equal("False/AutoscalerFailing"))
		Expect(getPool(ctx, namespace, poolName).Spec.Replicas).To(HaveValue(Equal(int32(3))), "the operator never writes replicas")
	})

	It("repairs a worker that lost its labels, instead of making another", func(ctx SpecContext) {
		namespace, _ := readyPool(ctx, 2)
		pods := workers(ctx, namespace, poolName)
		for _, label := range []string{v1alpha1.LabelRole, v1alpha1.LabelPoolUID} {
			pod := &corev1.Pod{ObjectMeta: named(namespace, pods[0].Name)}
			Expect(exists(ctx, pod)()).To(BeTrue())
			delete(pod.Labels, label)
			Expect(env.Client.Update(ctx, pod)).To(Succeed())
			Eventually(func() string { exists(ctx, pod)(); return pod.Labels[label] }).ShouldNot(BeEmpty(), label)
		}
		Expect(uids(workers(ctx, namespace, poolName))).To(Equal(uids(pods)))
	})

	It("shows the second replica the certificates of the first", func(ctx SpecContext) {
		options := operatorOptions()
		options.ReportsAddress = transporttest.FreeAddress(GinkgoTB())
		options.WatchNamespaces = []string{fmt.Sprintf("%s-none", home)}
		startOperator(operatorConfig, options)()
		namespace, _ := readyPool(ctx, 1)
		Expect(workers(ctx, namespace, poolName)).To(HaveLen(1))
	})
})
