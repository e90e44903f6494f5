package v1alpha1

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

// UpdatePolicy says when a new version of the runtime, or new resources of it,
// reach running pods. Which values there are, and what each does, differs: the
// operator makes the pods of a pool itself, a StatefulSet the producer's.
type UpdatePolicy string

const (
	// UpdateOnNextRollout keeps running pods until the next template change.
	UpdateOnNextRollout UpdatePolicy = "OnNextRollout"
	// UpdateRolling replaces running pods at once, at the pace of a rollout.
	UpdateRolling UpdatePolicy = "Rolling"
	// UpdateManual leaves a producer alone until a person deletes its pod. A pool
	// has no such policy: its new workers are always of the newest runtime.
	UpdateManual UpdatePolicy = "Manual"
)
