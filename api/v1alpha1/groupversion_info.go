package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of both kinds.
	GroupVersion = schema.GroupVersion{Group: "workpulling.dev", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers both kinds and their lists in a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

const (
	KindWorkPullingFlow = "WorkPullingFlow"
	KindWorkerPool      = "WorkerPool"
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&WorkPullingFlow{}, &WorkPullingFlowList{},
		&WorkerPool{}, &WorkerPoolList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
