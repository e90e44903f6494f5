package flow

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/networkpolicy"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// annotationNamespace tells the namespace of the flow on an object that has none itself.
const annotationNamespace = "workpulling.dev/flow-namespace"

// Settings are what the operator was started with.
type Settings struct {
	// Image is the runtime's.
	Image string
	// OperatorAddress is host:port of the FlowStatsCollector; empty turns reports off. OperatorHost is the name in its certificate.
	OperatorAddress, OperatorHost string
	// TokenReviewerClusterRole is the ClusterRole that lets a producer have tokens reviewed.
	TokenReviewerClusterRole string
	// Confined says that the operator has rights in namespaces alone: it looks at no node, class or namespace, and binds no ClusterRole.
	Confined bool
	// Network says who may open connections to the producers.
	Network networkpolicy.Settings
}

// objects are the children of a flow besides the StatefulSet, in the order in which they are needed.
func objects(flow *v1alpha1.WorkPullingFlow, config string, settings Settings) []client.Object {
	list := []client.Object{
		configMap(flow, config), role(flow), roleBinding(flow), producerService(flow), intakeService(flow),
	}
	if !settings.Confined {
		list = append(list, clusterRoleBinding(flow, settings.TokenReviewerClusterRole))
	}
	if flow.Spec.Queue.IsShared() {
		list = append(list, lease(flow), disruptionBudget(flow))
	}
	if podbuilder.ProducerServiceAccount(flow) == runtimeconfig.ProducerName(flow.Name) {
		list = append(list, serviceAccount(flow))
	}
	if settings.Network.Enabled {
		list = append(list, networkpolicy.Producer(flow, settings.Network))
	}
	return list
}

// unwanted are the children that may be there from before and should not be any more.
func unwanted(flow *v1alpha1.WorkPullingFlow, settings Settings) []client.Object {
	if settings.Network.Enabled {
		return nil
	}
	return []client.Object{networkpolicy.Producer(flow, settings.Network)}
}

func metadata(flow *v1alpha1.WorkPullingFlow, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: flow.Namespace, Name: name, Labels: podbuilder.ProducerLabels(flow),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(flow, v1alpha1.GroupVersion.WithKind(v1alpha1.KindWorkPullingFlow))},
	}
}

func configMap(flow *v1alpha1.WorkPullingFlow, config string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metadata(flow, runtimeconfig.ProducerName(flow.Name)), Data: map[string]string{"config.json": config}}
}

func serviceAccount(flow *v1alpha1.WorkPullingFlow) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metadata(flow, runtimeconfig.ProducerName(flow.Name)), AutomountServiceAccountToken: ptr.To(false)}
}

// role is all that a producer may do in its namespace: see which pods may bind and which of their processes holds the pod's Lease, ask
// whether a submitter may submit, and hold the Lease of its flow where the queue is shared.
func role(flow *v1alpha1.WorkPullingFlow) *rbacv1.Role {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"workerpools"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"localsubjectaccessreviews"}, Verbs: []string{"create"}},
	}
	name := runtimeconfig.ProducerName(flow.Name)
	if flow.Spec.Queue.IsShared() {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{name}, Verbs: []string{"patch"},
		})
	}
	return &rbacv1.Role{ObjectMeta: metadata(flow, name), Rules: rules}
}

// Rights are what a producer may do in its namespace.
func Rights(flow *v1alpha1.WorkPullingFlow) []rbacv1.PolicyRule { return role(flow).Rules }

// lease is where the members of a shared queue say who has it. They fill it in; the operator only makes it, so that they need no right
// to make any.
func lease(flow *v1alpha1.WorkPullingFlow) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metadata(flow, runtimeconfig.ProducerName(flow.Name))}
}

// disruptionBudget lets a node drain or an autoscaler take one member at a time.
func disruptionBudget(flow *v1alpha1.WorkPullingFlow) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metadata(flow, runtimeconfig.ProducerName(flow.Name)), Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: podbuilder.ProducerLabels(flow)},
		UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
	}}
}

func roleBinding(flow *v1alpha1.WorkPullingFlow) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metadata(flow, runtimeconfig.ProducerName(flow.Name)),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: runtimeconfig.ProducerName(flow.Name)},
		Subjects:   subjects(flow),
	}
}

// clusterRoleBinding lets the producer have tokens reviewed, which is a question to the whole cluster. It cannot be owned by an object
// of a namespace, so the finalizer removes it.
func clusterRoleBinding(flow *v1alpha1.WorkPullingFlow, clusterRole string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("workpulling:%s:%s", flow.Namespace, flow.Name),
			Labels:      podbuilder.ProducerLabels(flow),
			Annotations: map[string]string{annotationNamespace: flow.Namespace},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		Subjects: subjects(flow),
	}
}

func subjects(flow *v1alpha1.WorkPullingFlow) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: flow.Namespace, Name: podbuilder.ProducerServiceAccount(flow)}}
}

// producerService gives the producer's pod its host name. It publishes the address before the pod is ready, so that workers can bind to
// a producer whose app still starts.
func producerService(flow *v1alpha1.WorkPullingFlow) *corev1.Service {
	return &corev1.Service{ObjectMeta: metadata(flow, runtimeconfig.ProducerName(flow.Name)), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: podbuilder.ProducerLabels(flow),
		Ports: []corev1.ServicePort{servicePort("transport", runtimeconfig.PortTransport, runtimeconfig.PortTransport)},
	}}
}

func intakeService(flow *v1alpha1.WorkPullingFlow) *corev1.Service {
	return &corev1.Service{ObjectMeta: metadata(flow, runtimeconfig.IntakeName(flow.Name)), Spec: corev1.ServiceSpec{
		Selector: podbuilder.ProducerLabels(flow),
		Ports:    []corev1.ServicePort{servicePort("https", 443, runtimeconfig.PortIntake)},
	}}
}

func servicePort(name string, port, target int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(target)}
}

// hosts are the names that the producer's certificate answers to. Each holds the namespace: the short name of the Service, which resolves in
// every namespace that has a flow of this name, would let the producer of one stand in for that of another.
func hosts(flow *v1alpha1.WorkPullingFlow) []string {
	intake := runtimeconfig.IntakeName(flow.Name)
	return []string{
		runtimeconfig.ProducerHost(flow.Name, flow.Namespace),
		intake + "." + flow.Namespace, intakeHost(flow), intakeHost(flow) + ".cluster.local",
	}
}

func intakeHost(flow *v1alpha1.WorkPullingFlow) string {
	return runtimeconfig.IntakeName(flow.Name) + "." + flow.Namespace + ".svc"
}

func intakeURL(flow *v1alpha1.WorkPullingFlow) string {
	return fmt.Sprintf("https://%s/v1/flows/%s/jobs", intakeHost(flow), flow.Name)
}
