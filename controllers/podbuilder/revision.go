package podbuilder

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// WorkerRevision identifies what the user asks a worker to be: the template and the flows. Nothing else is in it.
func WorkerRevision(pool *v1alpha1.WorkerPool) (string, error) {
	return revision(struct {
		Template corev1.PodTemplateSpec `json:"template"`
		Flows    []string               `json:"flows"`
	}{pool.Spec.Template, slices.Sorted(slices.Values(pool.Spec.Flows))})
}

// ProducerRevision identifies what the user asks a producer to be: its template, or the absence of one, and the Secret it mounts.
func ProducerRevision(flow *v1alpha1.WorkPullingFlow) (string, error) {
	return revision(struct {
		Template *corev1.PodTemplateSpec `json:"template"`
		Secret   string                  `json:"secret,omitempty"`
	}{flow.Spec.Producer.Template, flow.Spec.Queue.PostgreSQL.ConnectionSecretRef.Name})
}

// Revision identifies the runtime part of a pod.
func (r Runtime) Revision() (string, error) { return revision(r) }

// TemplateHash identifies a built template in every detail.
func TemplateHash(template *corev1.PodTemplateSpec) (string, error) { return revision(template) }

// revision hashes the canonical JSON of v: keys sorted, and nulls and empty objects left out, so that a field added to the core
// API by a newer operator does not change the hash of an old template.
func revision(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding for a revision: %w", err)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return "", fmt.Errorf("decoding for a revision: %w", err)
	}
	canonical, err := json.Marshal(prune(tree))
	if err != nil {
		return "", fmt.Errorf("encoding for a revision: %w", err)
	}
	sum := fnv.New32a()
	sum.Write(canonical)
	return rand.SafeEncodeString(fmt.Sprint(sum.Sum32())), nil
}

// prune removes nulls and empty maps below v. Members of lists stay, for their place has a meaning.
func prune(v any) any {
	switch node := v.(type) {
	case map[string]any:
		for key, child := range node {
			child = prune(child)
			if inner, isMap := child.(map[string]any); child == nil || isMap && len(inner) == 0 {
				delete(node, key)
				continue
			}
			node[key] = child
		}
	case []any:
		for i := range node {
			node[i] = prune(node[i])
		}
	}
	return v
}
