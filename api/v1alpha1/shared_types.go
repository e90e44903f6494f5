package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Switch is an on/off choice. It is an enum, not a boolean, so that a third
// value can be added without a new field.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type Switch string

const (
	// SwitchEnabled turns the behaviour on.
	SwitchEnabled Switch = "Enabled"
	// SwitchDisabled turns the behaviour off.
	SwitchDisabled Switch = "Disabled"
)

// RuntimeSpec configures the sidecar that Workpulling adds to each pod.
type RuntimeSpec struct {
	// resources are the compute resources of the runtime sidecar.
	//
	// +optional
	// +kubebuilder:default={requests: {cpu: "50m", memory: "64Mi"}, limits: {memory: "512Mi"}}
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// updatePolicy decides when running pods receive a new version of the
	// sidecar after an upgrade of the operator. OnNextRollout waits for the next
	// change of the template, Rolling replaces the pods at once at the pace of a
	// rollout, Manual only changes pods that are deleted by a person or replaced
	// for another reason.
	//
	// +optional
	// +kubebuilder:default=OnNextRollout
	UpdatePolicy UpdatePolicy `json:"updatePolicy,omitempty"`
}

// UpdatePolicy says when a new version of the sidecar reaches running pods.
//
// +kubebuilder:validation:Enum=OnNextRollout;Rolling;Manual
type UpdatePolicy string

const (
	// UpdateOnNextRollout keeps running pods until the next template change.
	UpdateOnNextRollout UpdatePolicy = "OnNextRollout"
	// UpdateRolling replaces running pods at once, at the pace of a rollout.
	UpdateRolling UpdatePolicy = "Rolling"
	// UpdateManual leaves running pods alone; only replacements are new.
	UpdateManual UpdatePolicy = "Manual"
)
