package standalone

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workpulling/workpulling/internal/manifest"
)

// environment is a set of variables that remembers their order, of which the last of one name counts.
type environment struct {
	names  []string
	values map[string]string
}

func newEnvironment(pairs []string) *environment {
	e := &environment{values: map[string]string{}}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		e.set(name, value)
	}
	return e
}

func (e *environment) set(name, value string) {
	if _, known := e.values[name]; !known {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) lookup(name string) (string, bool) {
	value, ok := e.values[name]
	return value, ok
}

func (e *environment) pairs() []string {
	pairs := make([]string, 0, len(e.names))
	for _, name := range e.names {
		pairs = append(pairs, name+"="+e.values[name])
	}
	return pairs
}

// pod is what a container can ask about the pod that it would be in.
type pod struct {
	name, namespace     string
	labels, annotations map[string]string
	node, account       string
	limits, requests    corev1.ResourceList
	set                 *manifest.Set
	whose, envFlag, at  string // for messages, as in appPlan
}

// fill adds the variables of a container in the order that Kubernetes has: envFrom, then env, whose values may use earlier ones.
// Values in own, which Kubernetes does not know, win over both and are known from the start.
func (p *pod) fill(e *environment, container corev1.Container, own []string) error {
	fixed := newEnvironment(own)
	known := newEnvironment(own) // what $(NAME) sees: the container's variables, not those that this process inherited
	set := func(name, value string) {
		if _, taken := fixed.values[name]; !taken {
			known.set(name, value)
		}
	}
	for _, source := range container.EnvFrom {
		values, err := p.all(source)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			set(source.Prefix+name, values[name])
		}
	}
	for _, variable := range container.Env {
		if _, taken := fixed.values[variable.Name]; taken {
			continue
		}
		value, ok, err := p.value(variable, known)
		if err != nil {
			return fmt.Errorf("%s: the variable %s of %s: %w", p.at, variable.Name, p.whose, err)
		}
		if ok {
			set(variable.Name, value)
		}
	}
	for _, name := range known.names {
		e.set(name, known.values[name])
	}
	return nil
}

// all is what a source of envFrom holds.
func (p *pod) all(source corev1.EnvFromSource) (map[string]string, error) {
	values := map[string]string{}
	missing := func(kind, name string, optional *bool) error {
		if optional != nil && *optional {
			return nil
		}
		return fmt.Errorf("%s: %s takes variables from the %s %s, which is not in the manifests: add it with -f", p.at, p.whose, kind, name)
	}
	switch {
	case source.ConfigMapRef != nil:
		object := p.set.ConfigMap(p.namespace, source.ConfigMapRef.Name)
		if object == nil {
			return nil, missing("ConfigMap", source.ConfigMapRef.Name, source.ConfigMapRef.Optional)
		}
		return object.Data, nil
	case source.SecretRef != nil:
		object := p.set.Secret(p.namespace, source.SecretRef.Name)
		if object == nil {
			return nil, missing("Secret", source.SecretRef.Name, source.SecretRef.Optional)
		}
		for key, value := range object.Data {
			values[key] = string(value)
		}
	}
	return values, nil
}

// value is that of one variable; false where an optional source is not there.
func (p *pod) value(variable corev1.EnvVar, known *environment) (string, bool, error) {
	from := variable.ValueFrom
	switch {
	case from == nil:
		return expand(variable.Value, known.lookup), true, nil
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		if object := p.set.ConfigMap(p.namespace, ref.Name); object != nil {
			if value, ok := object.Data[ref.Key]; ok {
				return value, true, nil
			}
		}
		return absent("ConfigMap", ref.Name, ref.Key, ref.Optional, p.envFlag, variable.Name)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		if object := p.set.Secret(p.namespace, ref.Name); object != nil {
			if value, ok := object.Data[ref.Key]; ok {
				return string(value), true, nil
			}
		}
		return absent("Secret", ref.Name, ref.Key, ref.Optional, p.envFlag, variable.Name)
	case from.FieldRef != nil:
		value, err := p.field(from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err := p.amount(*from.ResourceFieldRef)
		return value, err == nil, err
	}
	return "", false, fmt.Errorf("its source is not known here; give it with %s=%s=VALUE", p.envFlag, variable.Name)
}

func absent(kind, name, key string, optional *bool, envFlag, variable string) (string, bool, error) {
	if optional != nil && *optional {
		return "", false, nil
	}
	return "", false, fmt.Errorf("the %s %s with a key %s is not in the manifests: add it with -f, or give %s=%s=VALUE", kind, name, key, envFlag, variable)
}

// field answers the downward API. All addresses are loopback.
func (p *pod) field(path string) (string, error) {
	switch path {
	case "metadata.name", "metadata.uid":
		return p.name, nil
	case "metadata.namespace":
		return p.namespace, nil
	case "spec.nodeName":
		return p.node, nil
	case "spec.serviceAccountName":
		return p.account, nil
	case "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs":
		return loopback, nil
	}
	for prefix, values := range map[string]map[string]string{"metadata.labels['": p.labels, "metadata.annotations['": p.annotations} {
		if key, ok := strings.CutPrefix(path, prefix); ok {
			return values[strings.TrimSuffix(key, "']")], nil
		}
	}
	return "", fmt.Errorf("the field %s is not known here", path)
}

// amount answers for a resource of the container, in units of the divisor, rounded up.
func (p *pod) amount(ref corev1.ResourceFieldSelector) (string, error) {
	of, name, _ := strings.Cut(ref.Resource, ".")
	list := map[string]corev1.ResourceList{"limits": p.limits, "requests": p.requests}[of]
	quantity, ok := list[corev1.ResourceName(name)]
	if !ok {
		return "", fmt.Errorf("the container has no %s, and a process has no limit of its own here", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	amount, unit := quantity.MilliValue(), divisor.MilliValue()
	return strconv.FormatInt((amount+unit-1)/unit, 10), nil
}

// nodeName is the name of this machine.
func nodeName() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}
