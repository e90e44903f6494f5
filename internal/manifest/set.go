package manifest

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// Set is what the manifests hold, in the order in which they were read.
type Set struct {
	Flows []Flow
	Pools []Pool
	// ConfigMaps and Secrets are there to fill environments with.
	ConfigMaps []*corev1.ConfigMap
	Secrets    []*corev1.Secret
	// Skipped are the objects of other kinds.
	Skipped []Skipped
}

// Flow is a valid WorkPullingFlow with all defaults.
type Flow struct {
	*v1alpha1.WorkPullingFlow
	At Position
}

// Pool is a valid WorkerPool with all defaults.
type Pool struct {
	*v1alpha1.WorkerPool
	At Position
}

// Skipped is an object that this package has no use for.
type Skipped struct {
	Kind, Name string
	At         Position
}

func (s Skipped) String() string { return fmt.Sprintf("%s: %s %s", s.At, s.Kind, s.Name) }

// ConfigMap returns the ConfigMap of that name, or nil.
func (s *Set) ConfigMap(namespace, name string) *corev1.ConfigMap {
	for _, object := range s.ConfigMaps {
		if object.Namespace == namespace && object.Name == name {
			return object
		}
	}
	return nil
}

// Secret returns the Secret of that name, or nil. Its Data holds what the manifest has in stringData.
func (s *Set) Secret(namespace, name string) *corev1.Secret {
	for _, object := range s.Secrets {
		if object.Namespace == namespace && object.Name == name {
			return object
		}
	}
	return nil
}

// identity tells objects apart. Two of one identity are an error, for which of them is meant cannot be known.
type identity struct{ kind, namespace, name string }

func (i identity) String() string {
	return fmt.Sprintf("%s %s in namespace %s", i.kind, i.name, i.namespace)
}

// register notes where an object was read; an error if it was read before.
func (l *loader) register(id identity, at Position) error {
	if before, ok := l.seen[id]; ok {
		return fmt.Errorf("%s: %s is there already, at %s", at, id, before)
	}
	l.seen[id] = at
	return nil
}

// errEmpty says that there is nothing to run.
var errEmpty = errors.New("there is no WorkPullingFlow and no WorkerPool in the manifests")
