package podbuilder

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// TestRestricted asks the admission plugin's own checks.
func TestRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range pods(t) {
		level := psapi.LevelVersion{Level: psapi.LevelRestricted, Version: psapi.LatestVersion()}
		for _, result := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				t.Errorf("%s: %s: %s", name, result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
	}
}

func TestSecretsStayInTheRuntime(t *testing.T) {
	private := []string{volumeTLS, volumeToken, volumeAPI, runtimeconfig.VolumeData}
	for name, pod := range pods(t) {
		mounted := 0
		for _, c := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
			for _, m := range c.VolumeMounts {
				if !slices.Contains(private, m.Name) {
					continue
				}
				mounted++
				if c.Name != runtimeconfig.ContainerSidecar && c.Name != runtimeconfig.ContainerGateway {
					t.Errorf("%s: container %s mounts %s", name, c.Name, m.Name)
				}
			}
		}
		if mounted < 2 {
			t.Errorf("%s: the runtime mounts %d private volumes, want its key and its token at least", name, mounted)
		}
	}
}

func TestUserSecurityContextIsUntouched(t *testing.T) {
	pool := makePool()
	pool.Spec.Template.Spec.Containers[0].SecurityContext = nil
	pod, err := WorkerPod(pool, image, "resize-x7k2p")
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.Containers[0].SecurityContext != nil || pod.Spec.SecurityContext != nil {
		t.Error("the builder wrote a security context that belongs to the user")
	}
}

// pods are those of every sort of flow and pool whose own containers are restricted, where they have any.
func pods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	all := map[string]corev1.PodTemplateSpec{}
	for name, pool := range map[string]*v1alpha1.WorkerPool{
		"worker": makePool(), "worker-with-socket": withSocket(makePool()), "worker-with-named-port": withNamedPort(makePool()),
		"worker-of-several-flows": withFlows(makePool(), "thumbnails", "posters"),
	} {
		pod, err := WorkerPod(pool, image, "resize-x7k2p")
		if err != nil {
			t.Fatal(err)
		}
		all[name] = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
	}
	for name, flow := range map[string]*v1alpha1.WorkPullingFlow{
		"producer-gateway": makeFlow(), "producer-with-app": withProducerApp(makeFlow()),
		"producer-memory": withQueue(makeFlow(), v1alpha1.QueueMemory), "producer-memory-with-app": withQueue(withProducerApp(makeFlow()), v1alpha1.QueueMemory),
		"producer-shared": withQueue(makeFlow(), v1alpha1.QueuePostgreSQL), "producer-shared-with-app": withQueue(withProducerApp(makeFlow()), v1alpha1.QueuePostgreSQL),
	} {
		set, err := ProducerStatefulSet(flow, image, corev1.ReadWriteOnce)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = set.Spec.Template
	}
	return all
}

func withFlows(pool *v1alpha1.WorkerPool, flows ...string) *v1alpha1.WorkerPool {
	pool.Spec.Flows = flows
	return pool
}

func withQueue(flow *v1alpha1.WorkPullingFlow, kind v1alpha1.QueueType) *v1alpha1.WorkPullingFlow {
	flow.Spec.Queue = v1alpha1.QueueSpec{Type: kind}
	if kind == v1alpha1.QueuePostgreSQL {
		flow.Spec.Queue.PostgreSQL.ConnectionSecretRef = v1alpha1.ConnectionSecretRef{Name: "thumbnails-db", Key: "dsn"}
	}
	return flow
}
