package podbuilder

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// userID is the user and group of the runtime's processes; it is nobody in particular, and not root.
const userID = 65532

// tokenSeconds is the life of an identity token. Kubelet renews it at 80 percent.
const tokenSeconds = 3600

// Programs inside the runtime's image.
const binSidecar = "/workpulling/sidecar"

// Names of the volumes that are added, besides runtimeconfig.VolumeData.
const (
	volumeConfig = runtimeconfig.ReservedPrefix + "config"
	volumeCA     = runtimeconfig.ReservedPrefix + "ca"
	volumeTLS    = runtimeconfig.ReservedPrefix + "tls"
	volumeToken  = runtimeconfig.ReservedPrefix + "token"
	volumeAPI    = runtimeconfig.ReservedPrefix + "api-access"
	volumeRun    = runtimeconfig.ReservedPrefix + "run"
	volumeBin    = runtimeconfig.ReservedPrefix + "bin"
	volumeState  = runtimeconfig.ReservedPrefix + "state"
	volumeQueue  = runtimeconfig.ReservedPrefix + "queue"
)

// Runtime is the part of a pod that belongs to Workpulling and not to the user.
type Runtime struct {
	// Image holds every program of the runtime.
	Image string `json:"image"`
	// Resources are those of the sidecar, from spec.runtime.
	Resources corev1.ResourceRequirements `json:"resources"`
}

// port is one port of the runtime.
type port struct {
	name   string
	number int32
}

var (
	portTransport = port{"wp-transport", runtimeconfig.PortTransport}
	portIntake    = port{"wp-intake", runtimeconfig.PortIntake}
	portHealth    = port{"wp-health", runtimeconfig.PortHealth}
	portMetrics   = port{"wp-metrics", runtimeconfig.PortMetrics}
)

// container is the runtime in one role. It becomes a native sidecar through asSidecar, or stays the only container of a gateway.
func (r Runtime) container(name, role string, ports ...port) corev1.Container {
	c := corev1.Container{
		Name:            name,
		Image:           r.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{binSidecar},
		Args:            []string{role},
		Env:             environment(),
		Resources:       *r.Resources.DeepCopy(),
		SecurityContext: restricted(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeConfig, MountPath: runtimeconfig.ConfigDir, ReadOnly: true},
			{Name: volumeCA, MountPath: runtimeconfig.CADir, ReadOnly: true},
			{Name: volumeTLS, MountPath: runtimeconfig.TLSDir, ReadOnly: true},
			{Name: volumeToken, MountPath: runtimeconfig.TokenDir, ReadOnly: true},
			{Name: volumeRun, MountPath: runtimeconfig.RunDir},
		},
		StartupProbe:   probe("/startupz", 1, 120),
		ReadinessProbe: probe("/readyz", 2, 2),
		LivenessProbe:  probe("/healthz", 10, 6),
	}
	for _, p := range ports {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: p.name, ContainerPort: p.number, Protocol: corev1.ProtocolTCP})
	}
	return c
}

// asSidecar makes c a native sidecar: it starts before the app and stops after it.
func asSidecar(c corev1.Container) corev1.Container {
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

// install copies the prestop program into a volume, because an app's image may have no shell and no program of ours.
func (r Runtime) install() corev1.Container {
	return corev1.Container{
		Name:            runtimeconfig.ContainerInstall,
		Image:           r.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{binSidecar},
		Args:            []string{"install-prestop", runtimeconfig.BinDir},
		Resources:       *r.Resources.DeepCopy(),
		SecurityContext: restricted(),
		VolumeMounts:    []corev1.VolumeMount{{Name: volumeBin, MountPath: runtimeconfig.BinDir}},
	}
}

// restricted is what the restricted Pod Security Standard asks of a container, and a read-only root on top.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		ReadOnlyRootFilesystem:   ptr.To(true),
		RunAsGroup:               ptr.To[int64](userID),
		RunAsNonRoot:             ptr.To(true),
		RunAsUser:                ptr.To[int64](userID),
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func probe(path string, periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(runtimeconfig.PortHealth), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds:    periodSeconds,
		TimeoutSeconds:   2,
		SuccessThreshold: 1,
		FailureThreshold: failures,
	}
}

func environment() []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
		}}
	}
	return []corev1.EnvVar{
		field(runtimeconfig.EnvPodName, "metadata.name"),
		field(runtimeconfig.EnvPodUID, "metadata.uid"),
		field(runtimeconfig.EnvPodNamespace, "metadata.namespace"),
		field(runtimeconfig.EnvPodIP, "status.podIP"),
		field(runtimeconfig.EnvNodeName, "spec.nodeName"),
	}
}

// addSocket lets a container of the app find the socket at path, unless it says itself where to look.
func addSocket(c *corev1.Container, path string) {
	if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == runtimeconfig.EnvSocket }) {
		return
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: runtimeconfig.EnvSocket, Value: path})
}

// volumes are those of every pod that has the runtime in it.
func volumes(configMap, tlsEntry string) []corev1.Volume {
	return []corev1.Volume{
		{Name: volumeConfig, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, DefaultMode: ptr.To[int32](0o444),
		}}},
		{Name: volumeCA, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: runtimeconfig.CAConfigMapName}, DefaultMode: ptr.To[int32](0o444),
		}}},
		{Name: volumeTLS, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: runtimeconfig.TLSSecretName,
			Items: []corev1.KeyToPath{
				{Key: tlsEntry + runtimeconfig.TLSCertSuffix, Path: corev1.TLSCertKey},
				{Key: tlsEntry + runtimeconfig.TLSKeySuffix, Path: corev1.TLSPrivateKeyKey},
			},
			DefaultMode: ptr.To[int32](0o444),
		}}},
		{Name: volumeToken, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience: runtimeconfig.TokenAudience, ExpirationSeconds: ptr.To[int64](tokenSeconds), Path: "token",
			}}},
			DefaultMode: ptr.To[int32](0o444),
		}}},
		{Name: volumeRun, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
}

// apiVolume is what a client of the API server needs. It is spelled out, instead of left to automounting, so that it can be mounted in
// one container alone.
func apiVolume() corev1.Volume {
	return corev1.Volume{Name: volumeAPI, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To[int64](tokenSeconds), Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
		DefaultMode: ptr.To[int32](0o444),
	}}}
}
