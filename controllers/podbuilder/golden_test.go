package podbuilder

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew")

const image = "workpulling/runtime:v0.1.0"

func TestGolden(t *testing.T) {
	cases := map[string]func() (any, error){
		"worker":                 func() (any, error) { return WorkerPod(makePool(), image, "resize-x7k2p") },
		"worker-with-hook":       func() (any, error) { return WorkerPod(withHook(makePool()), image, "resize-x7k2p") },
		"worker-with-socket":     func() (any, error) { return WorkerPod(withSocket(makePool()), image, "resize-x7k2p") },
		"worker-with-named-port": func() (any, error) { return WorkerPod(withNamedPort(makePool()), image, "resize-x7k2p") },
		"producer-gateway": func() (any, error) {
			return ProducerStatefulSet(makeFlow(), image, corev1.ReadWriteOncePod)
		},
		"producer-memory": func() (any, error) {
			flow := makeFlow()
			flow.Spec.Queue.Type = v1alpha1.QueueMemory
			return ProducerStatefulSet(flow, image, corev1.ReadWriteOnce)
		},
		"producer-shared": func() (any, error) {
			flow := withProducerApp(makeFlow())
			flow.Spec.Producer.Replicas = 3
			flow.Spec.Queue = v1alpha1.QueueSpec{Type: v1alpha1.QueuePostgreSQL, PostgreSQL: v1alpha1.PostgreSQLQueueSpec{
				ConnectionSecretRef: v1alpha1.ConnectionSecretRef{Name: "thumbnails-db", Key: "dsn"},
			}}
			return ProducerStatefulSet(flow, image, corev1.ReadWriteOnce)
		},
		"producer-with-app": func() (any, error) {
			return ProducerStatefulSet(withProducerApp(makeFlow()), image, corev1.ReadWriteOnce)
		},
	}
	for name, build := range cases {
		t.Run(name, func(t *testing.T) {
			object, err := build()
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s differs (-want +got); run with -update where that is meant:\n%s", path, diff)
			}
		})
	}
}

func makePool() *v1alpha1.WorkerPool {
	return &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "media", Name: "resize", UID: "7a0b6f0e-6d2c-4a57-9a55-000000000001"},
		Spec: v1alpha1.WorkerPoolSpec{
			Flows:    []string{"thumbnails"},
			Replicas: ptr.To[int32](3),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "images"}, Annotations: map[string]string{"note": "kept"}},
				Spec: corev1.PodSpec{
					ServiceAccountName: "resizer",
					Containers:         []corev1.Container{{Name: "app", Image: "example.com/resize:1", SecurityContext: restricted()}},
				},
			},
			Drain:   v1alpha1.DrainSpec{TimeoutSeconds: 120},
			Runtime: v1alpha1.WorkerRuntimeSpec{Resources: resources()},
		},
	}
}

func withHook(pool *v1alpha1.WorkerPool) *v1alpha1.WorkerPool {
	spec := &pool.Spec.Template.Spec
	spec.TerminationGracePeriodSeconds = ptr.To[int64](900)
	spec.InitContainers = []corev1.Container{{Name: "migrate", Image: "example.com/migrate:1"}}
	spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/app", "flush"}}}}
	return pool
}

// withSocket has a container that says itself where its socket is, and one that does not.
func withSocket(pool *v1alpha1.WorkerPool) *v1alpha1.WorkerPool {
	spec := &pool.Spec.Template.Spec
	spec.Containers[0].Env = []corev1.EnvVar{{Name: "WORKPULLING_SOCKET", Value: "/elsewhere.sock"}}
	spec.Containers = append(spec.Containers, corev1.Container{
		Name: "other", Image: "example.com/other:1", Env: []corev1.EnvVar{{Name: "MODE", Value: "fast"}}, SecurityContext: restricted(),
	})
	pool.Spec.Handler = v1alpha1.HandlerSpec{Stream: &v1alpha1.StreamHandlerSpec{TimeoutSeconds: 60}}
	return pool
}

func withNamedPort(pool *v1alpha1.WorkerPool) *v1alpha1.WorkerPool {
	app := &pool.Spec.Template.Spec.Containers[0]
	app.Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9000}, {Name: "admin", ContainerPort: 8081}}
	app.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/flush", Port: intstr.FromString("admin")}}}
	return pool
}

// A hook whose port has no number can never run, and the API server, which sees it inside a command, does not say so.
func TestHookOfAnUnknownPort(t *testing.T) {
	pool := withNamedPort(makePool())
	pool.Spec.Template.Spec.Containers[0].Ports = nil
	_, err := WorkerPod(pool, image, "resize-x7k2p")
	var wrong *TemplateError
	if !errors.As(err, &wrong) || wrong.Container != "app" || !strings.Contains(wrong.Problem, `"admin"`) {
		t.Errorf("WorkerPod = %v, want a TemplateError about port admin of container app", err)
	}
	if got := pool.Spec.Template.Spec.Containers[0].Lifecycle.PreStop.HTTPGet; got == nil || got.Port.StrVal != "admin" {
		t.Errorf("the pool's own template was changed: %+v", got)
	}
}

func makeFlow() *v1alpha1.WorkPullingFlow {
	return &v1alpha1.WorkPullingFlow{
		ObjectMeta: metav1.ObjectMeta{Namespace: "media", Name: "thumbnails", UID: "7a0b6f0e-6d2c-4a57-9a55-000000000002"},
		Spec: v1alpha1.WorkPullingFlowSpec{
			Queue:   v1alpha1.QueueSpec{Type: v1alpha1.QueueLocal},
			Runtime: v1alpha1.ProducerRuntimeSpec{Resources: resources()},
		},
	}
}

func withProducerApp(flow *v1alpha1.WorkPullingFlow) *v1alpha1.WorkPullingFlow {
	flow.Spec.Queue.Local = &v1alpha1.LocalQueueSpec{Size: resource.MustParse("1Gi"), StorageClassName: ptr.To("fast")}
	flow.Spec.Producer.Template = &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "images"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "upload", Image: "example.com/upload:1", SecurityContext: restricted()}}},
	}
	return flow
}

func resources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
}
