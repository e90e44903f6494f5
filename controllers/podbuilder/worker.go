package podbuilder

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// WorkerPod is a worker of pool, called name, with the runtime of image. The pool is its controller. A template that no pod can be made
// from is a *TemplateError.
func WorkerPod(pool *v1alpha1.WorkerPool, image, name string) (*corev1.Pod, error) {
	rt := Runtime{Image: image, Resources: pool.Spec.Runtime.Resources}
	revision, err := WorkerRevision(pool)
	if err != nil {
		return nil, err
	}
	runtimeRevision, err := rt.Revision()
	if err != nil {
		return nil, err
	}
	template := pool.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       pool.Namespace,
			Name:            name,
			Labels:          map[string]string{},
			Annotations:     map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pool, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkerPool))},
		},
		Spec: template.Spec,
	}
	maps.Copy(pod.Labels, template.Labels)
	maps.Copy(pod.Labels, WorkerLabels(pool))
	maps.Copy(pod.Labels, flowLabels(pool.Spec.Flows))
	pod.Labels[v1alpha1.LabelPoolUID] = string(pool.UID)
	pod.Labels[v1alpha1.LabelRevision] = revision
	maps.Copy(pod.Annotations, template.Annotations)
	pod.Annotations[v1alpha1.AnnotationRuntimeRevision] = runtimeRevision
	pod.Annotations[v1alpha1.AnnotationLease] = v1alpha1.LeaseRequired
	pod.Annotations[v1alpha1.AnnotationFlows] = strings.Join(slices.Sorted(slices.Values(pool.Spec.Flows)), separator)

	if err := addWorkerRuntime(&pod.Spec, rt, pool); err != nil {
		return nil, err
	}
	return pod, nil
}

// WorkerLabels are the labels that a worker has for its whole life. LabelPoolUID, which a draining worker loses, is not among them. A
// label holds one name, so a worker of several flows has none of the flow.
func WorkerLabels(pool *v1alpha1.WorkerPool) map[string]string {
	labels := map[string]string{v1alpha1.LabelRole: v1alpha1.RoleWorker, v1alpha1.LabelPool: pool.Name}
	if len(pool.Spec.Flows) == 1 {
		labels[v1alpha1.LabelFlow] = pool.Spec.Flows[0]
	}
	return labels
}

// separator is what stands between the names of AnnotationFlows.
const separator = ","

// FlowLabels are the labels by which a worker is found as one of its flows. They follow the pod and not its pool: until a rollout has
// replaced it, a worker pulls from the flows that the pool had when it was made.
func FlowLabels(pod *corev1.Pod) map[string]string {
	flows := pod.Annotations[v1alpha1.AnnotationFlows]
	if flows == "" {
		return nil
	}
	return flowLabels(strings.Split(flows, separator))
}

func flowLabels(flows []string) map[string]string {
	labels := map[string]string{}
	for _, flow := range flows {
		labels[v1alpha1.LabelPullsFrom(flow)] = v1alpha1.PullsFrom
	}
	return labels
}

// ConfigOf is the name of the ConfigMap that a pod of the runtime reads.
func ConfigOf(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.Name == volumeConfig && v.ConfigMap != nil {
			return v.ConfigMap.Name
		}
	}
	return ""
}

// stateLimit is room for a thousand handlers several times over.
var stateLimit = resource.MustParse("32Mi")

func addWorkerRuntime(spec *corev1.PodSpec, rt Runtime, pool *v1alpha1.WorkerPool) error {
	spec.RestartPolicy = corev1.RestartPolicyAlways
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = ptr.To(int64(pool.Spec.Drain.TimeoutSeconds) + v1alpha1.DrainGraceMarginSeconds)
	}
	sidecar := asSidecar(rt.container(runtimeconfig.ContainerSidecar, "worker", portTransport, portHealth, portMetrics))
	// The API server's token is the sidecar's alone, whatever the template says of automounting: that never mounts where something is.
	sidecar.VolumeMounts = append(sidecar.VolumeMounts, corev1.VolumeMount{Name: volumeState, MountPath: runtimeconfig.StateDir},
		corev1.VolumeMount{Name: volumeAPI, MountPath: runtimeconfig.APIDir, ReadOnly: true})
	spec.InitContainers = append([]corev1.Container{rt.install(), sidecar}, spec.InitContainers...)
	spec.Volumes = append(spec.Volumes, volumes(runtimeconfig.WorkerConfigName(pool.Name, pool.Spec.Flows...), runtimeconfig.WorkerName(pool.Name))...)
	spec.Volumes = append(spec.Volumes, apiVolume(),
		corev1.Volume{Name: volumeBin, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: volumeState, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &stateLimit}}})
	for i := range spec.Containers {
		if err := wrapPreStop(&spec.Containers[i], pool.Spec.Drain.TimeoutSeconds); err != nil {
			return err
		}
		addSocket(&spec.Containers[i], runtimeconfig.WorkerSocket)
	}
	return nil
}
