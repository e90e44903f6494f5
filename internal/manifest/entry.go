package manifest

import (
	"context"
	"fmt"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

const (
	kindFlow = v1alpha1.KindWorkPullingFlow
	kindPool = v1alpha1.KindWorkerPool
)

// entry is one object on its way in.
type entry struct {
	object   map[string]any
	node     *yaml.Node
	document Position
	// prefix is the path of the object in its document, for an item of a List.
	prefix string
}

// at is where a field of the entry stands.
func (e entry) at(path string) Position {
	if e.node.Kind == 0 {
		return e.document
	}
	return e.document.at(lineOf(e.node, e.prefix+path))
}

func (e entry) errorf(path, format string, args ...any) []error {
	return []error{fmt.Errorf("%s: %s", e.at(path), fmt.Sprintf(format, args...))}
}

// refuse turns what the API server says into errors at their lines.
func (e entry) refuse(id identity, list field.ErrorList) (errs []error) {
	for _, err := range list {
		errs = append(errs, fmt.Errorf("%s: %s %s: %w", e.at(err.Field), id.kind, id.name, err))
	}
	return errs
}

// take sorts one object in.
func (l *loader) take(ctx context.Context, e entry) []error {
	apiVersion, _ := e.object["apiVersion"].(string)
	kind, _ := e.object["kind"].(string)
	if apiVersion == "" || kind == "" {
		return e.errorf("", "this is no Kubernetes object: it has no apiVersion or no kind")
	}
	version, err := schema.ParseGroupVersion(apiVersion)
	switch {
	case err != nil:
		return e.errorf("apiVersion", "%v", err)
	case version == v1alpha1.GroupVersion && l.kinds[kind] != nil:
		return l.ours(ctx, e, kind)
	case version.Group == v1alpha1.GroupVersion.Group:
		return e.errorf("kind", "%s of %s is not known to this version: it has %s and %s of %s", kind, apiVersion, kindFlow, kindPool, v1alpha1.GroupVersion)
	case apiVersion == "v1" && kind == "List":
		return l.items(ctx, e)
	case apiVersion == "v1" && kind == "ConfigMap":
		object := &corev1.ConfigMap{}
		return l.core(e, kind, object, &object.ObjectMeta, func() { l.set.ConfigMaps = append(l.set.ConfigMaps, object) })
	case apiVersion == "v1" && kind == "Secret":
		object := &corev1.Secret{}
		return l.core(e, kind, object, &object.ObjectMeta, func() {
			if object.Data == nil {
				object.Data = map[string][]byte{}
			}
			for key, value := range object.StringData {
				object.Data[key] = []byte(value)
			}
			l.set.Secrets = append(l.set.Secrets, object)
		})
	}
	name, _, _ := unstructured.NestedString(e.object, "metadata", "name")
	l.set.Skipped = append(l.set.Skipped, Skipped{Kind: kind, Name: name, At: e.at("kind")})
	return nil
}

// items takes the objects of a List, as `kubectl get -o yaml` prints it.
func (l *loader) items(ctx context.Context, e entry) (errs []error) {
	items, _ := e.object["items"].([]any)
	for i, item := range items {
		object, ok := item.(map[string]any)
		path := fmt.Sprintf("%sitems[%d]", e.prefix, i)
		if !ok {
			errs = append(errs, e.errorf(path, "this item is no Kubernetes object")...)
			continue
		}
		errs = append(errs, l.take(ctx, entry{object: object, node: e.node, document: e.document, prefix: path + "."})...)
	}
	return errs
}

// ours takes an object of this API.
func (l *loader) ours(ctx context.Context, e entry, kind string) []error {
	var meta metav1.ObjectMeta
	raw, _ := e.object["metadata"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(raw, &meta, true); err != nil {
		return e.errorf("metadata", "%v", err)
	}
	id, errs := l.identify(e, kind, &meta)
	if len(errs) > 0 {
		return errs
	}
	if list := l.kinds[kind].Admit(ctx, e.object, nil); len(list) > 0 {
		return e.refuse(id, list)
	}
	at := e.at("kind")
	if kind == kindFlow {
		flow := &v1alpha1.WorkPullingFlow{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(e.object, flow); err != nil {
			return e.errorf("", "%v", err)
		}
		flow.Namespace = meta.Namespace
		l.set.Flows = append(l.set.Flows, Flow{flow, at})
		return nil
	}
	pool := &v1alpha1.WorkerPool{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(e.object, pool); err != nil {
		return e.errorf("", "%v", err)
	}
	pool.Namespace = meta.Namespace
	l.set.Pools = append(l.set.Pools, Pool{pool, at})
	return nil
}

// core takes an object of the core API; keep is called if it is one.
func (l *loader) core(e entry, kind string, into any, meta *metav1.ObjectMeta, keep func()) []error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(e.object, into, true); err != nil {
		return e.errorf("", "%s: %v", kind, err)
	}
	if _, errs := l.identify(e, kind, meta); len(errs) > 0 {
		return errs
	}
	keep()
	return nil
}

// identify checks the metadata, gives it a namespace, and registers the object.
func (l *loader) identify(e entry, kind string, meta *metav1.ObjectMeta) (identity, []error) {
	if meta.Namespace == "" {
		meta.Namespace = DefaultNamespace
	}
	id := identity{kind, meta.Namespace, meta.Name}
	list := apivalidation.ValidateObjectMeta(meta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if len(list) == 0 && meta.Name == "" {
		list = append(list, field.Required(field.NewPath("metadata", "name"), "nobody makes up a name here"))
	}
	if len(list) > 0 {
		return id, e.refuse(id, list)
	}
	if err := l.register(id, e.at("kind")); err != nil {
		return id, []error{err}
	}
	return id, nil
}
