package podbuilder

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

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

func pods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	worker, err := WorkerPod(makePool(), image, "resize-x7k2p")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]corev1.PodTemplateSpec{"worker": {ObjectMeta: metav1.ObjectMeta{Labels: worker.Labels}, Spec: worker.Spec}}
	gateway, err := ProducerStatefulSet(makeFlow(), image, corev1.ReadWriteOnce)
	if err != nil {
		t.Fatal(err)
	}
	all["producer-gateway"] = gateway.Spec.Template
	withApp, err := ProducerStatefulSet(withProducerApp(makeFlow()), image, corev1.ReadWriteOnce)
	if err != nil {
		t.Fatal(err)
	}
	all["producer-with-app"] = withApp.Spec.Template
	return all
}
