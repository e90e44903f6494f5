package podbuilder

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// AnnotationTemplateHash, on the StatefulSet, is the hash of the pod template as it was built and applied. It tells drift, which is
// repaired, from a new way to build, which is not a reason to restart a producer.
const AnnotationTemplateHash = "workpulling.dev/template-hash"

// producerGraceSeconds is the grace period of a producer without a template: the queue is closed well within it.
const producerGraceSeconds = 30

// ProducerLabels select the producer of a flow.
func ProducerLabels(flow *v1alpha1.WorkPullingFlow) map[string]string {
	return map[string]string{v1alpha1.LabelRole: v1alpha1.RoleProducer, v1alpha1.LabelFlow: flow.Name}
}

// ProducerServiceAccount is the account the producer runs as: the template's, or the flow's own.
func ProducerServiceAccount(flow *v1alpha1.WorkPullingFlow) string {
	if t := flow.Spec.Producer.Template; t != nil && t.Spec.ServiceAccountName != "" {
		return t.Spec.ServiceAccountName
	}
	return runtimeconfig.ProducerName(flow.Name)
}

// ProducerStatefulSet runs the producer of flow with the runtime of image. accessMode is that of a Local queue's volume.
func ProducerStatefulSet(flow *v1alpha1.WorkPullingFlow, image string, accessMode corev1.PersistentVolumeAccessMode) (*appsv1.StatefulSet, error) {
	rt := Runtime{Image: image, Resources: flow.Spec.Runtime.Resources}
	template := producerTemplate(flow, rt)
	revision, err := ProducerRevision(flow)
	if err != nil {
		return nil, err
	}
	runtimeRevision, err := rt.Revision()
	if err != nil {
		return nil, err
	}
	template.Labels[v1alpha1.LabelRevision] = revision
	template.Annotations[v1alpha1.AnnotationRuntimeRevision] = runtimeRevision
	templateHash, err := TemplateHash(&template)
	if err != nil {
		return nil, err
	}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: flow.Namespace,
			Name:      runtimeconfig.ProducerName(flow.Name),
			Labels:    ProducerLabels(flow),
			Annotations: map[string]string{
				v1alpha1.LabelRevision:             revision,
				v1alpha1.AnnotationRuntimeRevision: runtimeRevision,
				AnnotationTemplateHash:             templateHash,
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(flow, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkPullingFlow))},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    ptr.To(flow.ProducerReplicas()),
			ServiceName: runtimeconfig.ProducerName(flow.Name),
			Selector:    &metav1.LabelSelector{MatchLabels: ProducerLabels(flow)},
			Template:    template,
			// Parallel lets an update replace a pod that never became ready, and lets no standby wait for another. An update
			// still takes one pod at a time and waits until it is ready.
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			// The volume outlives the StatefulSet, so that deleting that by mistake loses no job. The flow owns the claim instead.
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
		},
	}
	if flow.Spec.Queue.HasVolume() {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{dataClaim(flow, accessMode)}
	}
	return set, nil
}

func dataClaim(flow *v1alpha1.WorkPullingFlow, accessMode corev1.PersistentVolumeAccessMode) corev1.PersistentVolumeClaim {
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: runtimeconfig.VolumeData, Labels: ProducerLabels(flow)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{accessMode},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: flow.Spec.Queue.VolumeSize()}},
			VolumeMode:  ptr.To(corev1.PersistentVolumeFilesystem),
		},
	}
	if local := flow.Spec.Queue.Local; local != nil {
		claim.Spec.StorageClassName = local.StorageClassName
	}
	return claim
}

// producerTemplate is the pod of the producer: the runtime alone, or the runtime as a sidecar of the user's app.
func producerTemplate(flow *v1alpha1.WorkPullingFlow, rt Runtime) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}}}
	if user := flow.Spec.Producer.Template; user != nil {
		maps.Copy(template.Labels, user.Labels)
		maps.Copy(template.Annotations, user.Annotations)
		user.Spec.DeepCopyInto(&template.Spec)
	}
	maps.Copy(template.Labels, ProducerLabels(flow))

	spec := &template.Spec
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = ProducerServiceAccount(flow)
		// The flow's own account can read pods. Only the runtime gets its token, through a volume of its own.
		spec.AutomountServiceAccountToken = ptr.To(false)
	}
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = ptr.To[int64](producerGraceSeconds)
	}
	spec.RestartPolicy = corev1.RestartPolicyAlways
	spec.Volumes = append(spec.Volumes, volumes(runtimeconfig.ProducerName(flow.Name), runtimeconfig.ProducerName(flow.Name))...)
	spec.Volumes = append(spec.Volumes, apiVolume())

	mounts := []corev1.VolumeMount{{Name: volumeAPI, MountPath: runtimeconfig.APIDir, ReadOnly: true}}
	if flow.Spec.Queue.HasVolume() {
		mounts = append(mounts, corev1.VolumeMount{Name: runtimeconfig.VolumeData, MountPath: runtimeconfig.DataDir})
		ownVolume(spec)
	} else {
		// What the runtime keeps for a restart of its container, out of the app's reach.
		mounts = append(mounts, corev1.VolumeMount{Name: volumeState, MountPath: runtimeconfig.DataDir})
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: volumeState, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	if flow.Spec.Queue.IsShared() {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeQueue, MountPath: runtimeconfig.QueueDir, ReadOnly: true})
		spec.Volumes = append(spec.Volumes, queueVolume(flow.Spec.Queue.PostgreSQL.ConnectionSecretRef.Name))
		spread(flow, spec)
	}
	ports := []port{portTransport, portIntake, portHealth, portMetrics}
	if flow.Spec.Producer.Template == nil {
		gateway := rt.container(runtimeconfig.ContainerGateway, "producer", ports...)
		gateway.VolumeMounts = append(gateway.VolumeMounts, mounts...)
		spec.Containers = []corev1.Container{gateway}
		return template
	}
	sidecar := asSidecar(rt.container(runtimeconfig.ContainerSidecar, "producer", ports...))
	sidecar.VolumeMounts = append(sidecar.VolumeMounts, mounts...)
	spec.InitContainers = append([]corev1.Container{sidecar}, spec.InitContainers...)
	for i := range spec.Containers {
		spec.Containers[i].VolumeMounts = append(spec.Containers[i].VolumeMounts, corev1.VolumeMount{Name: volumeRun, MountPath: runtimeconfig.RunDir})
		addSocket(&spec.Containers[i], runtimeconfig.ProducerSocket)
	}
	return template
}

// ownVolume lets the runtime write to its volume where the template does not say who may.
func ownVolume(spec *corev1.PodSpec) {
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.SecurityContext.FSGroup == nil {
		spec.SecurityContext.FSGroup = ptr.To[int64](userID)
	}
	if spec.SecurityContext.FSGroupChangePolicy == nil {
		spec.SecurityContext.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	}
}

// queueVolume is the user's Secret, for the runtime alone. Nobody's role can read it: kubelet mounts it. It is optional, so that the
// runtime starts without it and says what is missing, which a pod that waits for a volume cannot.
func queueVolume(secret string) corev1.Volume {
	return corev1.Volume{Name: volumeQueue, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, DefaultMode: ptr.To[int32](0o444), Optional: ptr.To(true),
	}}}
}

// spread puts the members of a flow on different nodes where it can and the template does not say otherwise. It does not depend on
// their number: a change of that replaces no pod.
func spread(flow *v1alpha1.WorkPullingFlow, spec *corev1.PodSpec) {
	if len(spec.TopologySpreadConstraints) > 0 || spec.Affinity != nil && spec.Affinity.PodAntiAffinity != nil {
		return
	}
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: ProducerLabels(flow)},
	}}
}
