package fencing

import (
	"encoding/base64"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workpulling/workpulling/runtime/transport"
)

const testAudience = "workpulling.dev"

func label(refusal *transport.Refusal) transport.Label {
	if refusal == nil {
		return ""
	}
	return refusal.Label
}

// The texts are those of Kubernetes 1.37.
func TestClassifyReview(t *testing.T) {
	for name, c := range map[string]struct {
		status authenticationv1.TokenReviewStatus
		want   transport.Label
	}{
		"fine":             {authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{testAudience}}, ""},
		"no audiences":     {authenticationv1.TokenReviewStatus{Authenticated: true}, transport.LabelTokenAudience},
		"other audience":   {authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{"other"}}, transport.LabelTokenAudience},
		"refused audience": {authenticationv1.TokenReviewStatus{Error: `[invalid bearer token, token audiences ["x"] is invalid for the target audiences ["workpulling.dev"]]`}, transport.LabelTokenAudience},
		"expired":          {authenticationv1.TokenReviewStatus{Error: "[invalid bearer token, service account token has expired]"}, transport.LabelTokenExpired},
		"pod gone":         {authenticationv1.TokenReviewStatus{Error: "[invalid bearer token, service account token has been invalidated]"}, transport.LabelPodDeleted},
		"pod replaced":     {authenticationv1.TokenReviewStatus{Error: "[invalid bearer token, pod UID (a) does not match service account pod ref claim (b)]"}, transport.LabelPodDeleted},
		"account gone":     {authenticationv1.TokenReviewStatus{Error: "service account shop/app has been deleted"}, transport.LabelPodDeleted},
		"forged":           {authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}, transport.LabelTokenInvalid},
		"silent":           {authenticationv1.TokenReviewStatus{}, transport.LabelTokenInvalid},
	} {
		if _, refusal := classifyReview(c.status, testAudience); label(refusal) != c.want {
			t.Errorf("%s: %q, want %q", name, label(refusal), c.want)
		}
	}
}

func TestClassifyToken(t *testing.T) {
	good := identity{namespace: "shop", serviceAccount: "app", podName: "pod", podUID: "uid"}
	with := func(edit func(*identity)) identity {
		who := good
		edit(&who)
		return who
	}
	for name, c := range map[string]struct {
		who     identity
		allowed []string
		want    transport.Label
	}{
		"fine":                {good, nil, ""},
		"allowed":             {good, []string{"other", "app"}, ""},
		"not allowed":         {good, []string{"other"}, transport.LabelServiceAccount},
		"another namespace":   {with(func(i *identity) { i.namespace = "else" }), nil, transport.LabelServiceAccount},
		"a person":            {with(func(i *identity) { i.namespace, i.serviceAccount = "", "" }), nil, transport.LabelServiceAccount},
		"not bound to a pod":  {with(func(i *identity) { i.podName, i.podUID = "", "" }), nil, transport.LabelTokenUnbound},
		"bound without a UID": {with(func(i *identity) { i.podUID = "" }), nil, transport.LabelTokenUnbound},
	} {
		if got := label(classifyToken(c.who, "shop", c.allowed)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func podOf(uid string, edit func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	yes := true
	pod := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "pod", Namespace: "shop", UID: types.UID(uid),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "workpulling.dev/v1alpha1", Kind: "WorkerPool", Name: "pool", UID: "pool-uid", Controller: &yes}},
		},
	}
	if edit != nil {
		edit(pod)
	}
	return pod
}

func TestClassifyPod(t *testing.T) {
	who := identity{podName: "pod", podUID: "uid"}
	for name, c := range map[string]struct {
		pod  *metav1.PartialObjectMetadata
		want transport.Label
	}{
		"fine":        {podOf("uid", nil), ""},
		"none":        {nil, transport.LabelPodUnknown},
		"a successor": {podOf("other", nil), transport.LabelPodUnknown},
		"terminating": {podOf("uid", func(p *metav1.PartialObjectMetadata) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), transport.LabelPodTerminating},
		"nobody's":    {podOf("uid", func(p *metav1.PartialObjectMetadata) { p.OwnerReferences = nil }), transport.LabelPodForeign},
		"a job's":     {podOf("uid", func(p *metav1.PartialObjectMetadata) { p.OwnerReferences[0].Kind = "Job" }), transport.LabelPodForeign},
		"another group": {podOf("uid", func(p *metav1.PartialObjectMetadata) {
			p.OwnerReferences[0].APIVersion = "example.com/v1"
		}), transport.LabelPodForeign},
		"not controlled": {podOf("uid", func(p *metav1.PartialObjectMetadata) { p.OwnerReferences[0].Controller = nil }), transport.LabelPodForeign},
	} {
		if _, refusal := classifyPod(c.pod, who); label(refusal) != c.want {
			t.Errorf("%s: %q, want %q", name, label(refusal), c.want)
		}
	}
}

// Another producer of the flow may do what the socket in its pod allows, and nobody else may.
func TestClassifyMember(t *testing.T) {
	who := identity{podName: "pod", podUID: "uid"}
	member := func(edit func(*metav1.OwnerReference)) *metav1.PartialObjectMetadata {
		return podOf("uid", func(p *metav1.PartialObjectMetadata) {
			owner := &p.OwnerReferences[0]
			owner.APIVersion, owner.Kind, owner.Name = "apps/v1", "StatefulSet", "orders-producer"
			if edit != nil {
				edit(owner)
			}
		})
	}
	for name, c := range map[string]struct {
		pod  *metav1.PartialObjectMetadata
		want bool
	}{
		"a producer of the flow": {member(nil), true},
		"none":                   {nil, false},
		"a successor":            {func() *metav1.PartialObjectMetadata { p := member(nil); p.UID = "new"; return p }(), false},
		"of another flow":        {member(func(o *metav1.OwnerReference) { o.Name = "others-producer" }), false},
		"of another kind":        {member(func(o *metav1.OwnerReference) { o.Kind = "Deployment" }), false},
		"of another group":       {member(func(o *metav1.OwnerReference) { o.APIVersion = "example.com/v1" }), false},
		"not controlled":         {member(func(o *metav1.OwnerReference) { o.Controller = nil }), false},
		"a worker":               {podOf("uid", nil), false},
	} {
		if got := classifyMember(c.pod, who, "orders-producer"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func poolOf(uid string, flows ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "workpulling.dev/v1alpha1", "kind": "WorkerPool",
		"metadata": map[string]any{"name": "pool", "namespace": "shop", "uid": uid},
		"spec":     map[string]any{"flows": flows},
	}}
}

func TestClassifyPool(t *testing.T) {
	owner := &metav1.OwnerReference{Name: "pool", UID: "pool-uid"}
	for name, c := range map[string]struct {
		pool *unstructured.Unstructured
		want transport.Label
	}{
		"fine":           {poolOf("pool-uid", "orders"), ""},
		"one of several": {poolOf("pool-uid", "other", "orders"), ""},
		"none":           {nil, transport.LabelPodForeign},
		"a successor":    {poolOf("new", "orders"), transport.LabelPodForeign},
		"another flow":   {poolOf("pool-uid", "other"), transport.LabelPodForeign},
		"no flow":        {poolOf("pool-uid"), transport.LabelPodForeign},
		"nonsense":       {poolOf("pool-uid", int64(7)), transport.LabelPodForeign},
	} {
		if got := label(classifyPool(c.pool, owner, "orders")); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestWhatATokenSaysAgainstItself(t *testing.T) {
	jwt := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	server := []string{"https://kubernetes.default.svc"}
	for token, want := range map[string]finding{
		jwt(`{"aud":["https://kubernetes.default.svc"]}`): tokenOwnAudience,
		jwt(`{"aud":"other"}`):                            tokenAudience,
		jwt(`{"aud":["other","workpulling.dev"]}`):        tokenFine,
		jwt(`{"aud":"workpulling.dev"}`):                  tokenFine,
		jwt(`{"iss":"kubernetes/serviceaccount"}`):        tokenLegacy,
		jwt(`{}`):        tokenFine,
		jwt(`{"aud":7}`): tokenFine,
		"opaque":         tokenFine,
		"a.%.c":          tokenFine,
		"e30." + base64.RawURLEncoding.EncodeToString(nil) + ".": tokenFine,
	} {
		if got := peek(token, testAudience, server); got != want {
			t.Errorf("%s: %v, want %v", token, got, want)
		}
	}
}
