package children

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func configMap(owner types.UID, data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "media", Name: "x", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: "p", UID: owner, Controller: ptr.To(true)},
		}},
		Data: map[string]string{"config.json": data},
	}
}

func TestEnsure(t *testing.T) {
	labelled := configMap("us", "old")
	Mark(labelled)
	labelled.Labels["theirs"] = "kept"
	cases := map[string]struct {
		live        *corev1.ConfigMap
		wantWritten bool
		wantTaken   bool
	}{
		"missing":          {wantWritten: true},
		"drifted":          {live: labelled, wantWritten: true},
		"taken by another": {live: configMap("them", "old"), wantTaken: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(clientscheme.Scheme)
			if tc.live != nil {
				builder = builder.WithObjects(tc.live.DeepCopy())
			}
			c := builder.Build()
			keeper := Keeper{Client: c, Live: c}
			wrote, err := keeper.Ensure(t.Context(), configMap("us", "new"))
			var taken *NameConflictError
			if errors.As(err, &taken) != tc.wantTaken || (err != nil) != tc.wantTaken || wrote != tc.wantWritten {
				t.Fatalf("wrote %v, error %v", wrote, err)
			}
			if tc.wantTaken {
				return
			}
			if wrote, err := keeper.Ensure(t.Context(), configMap("us", "new")); wrote || err != nil {
				t.Errorf("the second time: wrote %v, error %v; want nothing", wrote, err)
			}
			var got corev1.ConfigMap
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "media", Name: "x"}, &got); err != nil {
				t.Fatal(err)
			}
			if got.Data["config.json"] != "new" || got.Labels[LabelManagedBy] != ManagedBy {
				t.Errorf("got %+v", got)
			}
			if tc.live != nil && got.Labels["theirs"] != "kept" {
				t.Error("a label of someone else is gone")
			}
		})
	}
}

func TestRemove(t *testing.T) {
	going := configMap("us", "old")
	going.Finalizers = []string{"example.test/slow"}
	going.DeletionTimestamp = ptr.To(metav1.Now())
	cases := map[string]struct {
		live *corev1.ConfigMap
		left bool
	}{
		"missing":          {},
		"ours":             {live: configMap("us", "old")},
		"taken by another": {live: configMap("them", "old"), left: true},
		"on its way":       {live: going, left: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(clientscheme.Scheme)
			if tc.live != nil {
				builder = builder.WithObjects(tc.live.DeepCopy())
			}
			c := builder.Build()
			if err := (Keeper{Client: c, Live: c}).Remove(t.Context(), configMap("us", "")); err != nil {
				t.Fatal(err)
			}
			err := c.Get(t.Context(), client.ObjectKey{Namespace: "media", Name: "x"}, &corev1.ConfigMap{})
			if left := err == nil; left != tc.left {
				t.Errorf("left is %v, want %v: %v", left, tc.left, err)
			}
		})
	}
}

func TestMergeIgnoresWhatTheServerFillsIn(t *testing.T) {
	desired := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"a": "b"}}}
	observed := desired.DeepCopy()
	observed.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	observed.Spec.SessionAffinity = corev1.ServiceAffinityNone
	if Merge(observed, desired) {
		t.Error("a defaulted Service counts as drift")
	}
	observed.Spec.Selector["a"] = "c"
	if !Merge(observed, desired) || observed.Spec.Selector["a"] != "b" {
		t.Error("drift of the selector is not repaired")
	}
	policy := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: []networkingv1.NetworkPolicyIngressRule{},
	}}
	stored := policy.DeepCopy()
	stored.Spec.Ingress = nil
	if Merge(stored, policy) {
		t.Error("a NetworkPolicy without rules counts as drift")
	}
	stored.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
	if !Merge(stored, policy) || len(stored.Spec.Ingress) != 0 {
		t.Error("an opened NetworkPolicy is not repaired")
	}
	role := &rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}
	wider := role.DeepCopy()
	wider.Rules[0].Verbs = []string{"get", "delete"}
	if !Merge(wider, role) || len(wider.Rules[0].Verbs) != 1 {
		t.Error("a widened role is not repaired")
	}
}
