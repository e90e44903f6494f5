package certs

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/internal/children"
)

// Outside asks an issuer of cert-manager for certificates.
type Outside struct {
	Ref IssuerRef
	// Client must not read from a cache: watching a kind that is not installed ends the operator.
	Client client.Client
}

// standing is how far a request is.
type standing int

const (
	unasked standing = iota
	waiting
	failed
	granted
)

// answer is what became of a request.
type answer struct {
	standing standing
	// message says why there is no certificate. trouble says that somebody has to do something about it, as far as we know.
	message string
	trouble bool
	// at is when a request failed.
	at              time.Time
	cert, authority []byte
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return key, encoded, nil
}

// longestName is how long a common name may be (RFC 5280). Names for verification are the DNS names; some issuers want a common name too.
const longestName = 64

func signingRequest(hosts []string, key crypto.Signer) ([]byte, error) {
	template := &x509.CertificateRequest{DNSNames: hosts}
	if len(hosts[0]) <= longestName {
		template.Subject = pkix.Name{CommonName: hosts[0]}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("making a signing request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

func request(s Serving) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(certManager + "/v1")
	obj.SetKind("CertificateRequest")
	obj.SetNamespace(s.Namespace)
	obj.SetName(s.Entry)
	return obj
}

// ask makes the request for a certificate of key.
func (o *Outside) ask(ctx context.Context, s Serving, key crypto.Signer) error {
	csr, err := signingRequest(s.Hosts, key)
	if err != nil {
		return err
	}
	obj := request(s)
	children.Mark(obj)
	obj.SetOwnerReferences([]metav1.OwnerReference{s.Owner})
	obj.Object["spec"] = map[string]any{
		"request":   base64.StdEncoding.EncodeToString(csr),
		"duration":  leafLife.String(),
		"usages":    []any{"digital signature", "server auth"},
		"issuerRef": map[string]any{"group": o.Ref.Group, "kind": o.Ref.Kind, "name": o.Ref.Name},
	}
	if err := o.Client.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// look says what became of the request for key. One for something else is removed: its spec cannot be changed.
func (o *Outside) look(ctx context.Context, s Serving, key crypto.Signer) (answer, error) {
	obj := request(s)
	err := o.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	switch {
	case apierrors.IsNotFound(err):
		return answer{}, nil
	case err != nil:
		return answer{}, err
	case !slices.ContainsFunc(obj.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == s.Owner.UID }):
		return answer{}, &children.NameConflictError{Kind: obj.GetKind(), Name: obj.GetName()}
	case obj.GetDeletionTimestamp() != nil:
		return answer{standing: waiting, message: "the former request is being deleted"}, nil
	case !o.isFor(obj, s, key):
		err := o.Client.Delete(ctx, obj, client.Preconditions{UID: ptr.To(obj.GetUID())})
		return answer{}, client.IgnoreNotFound(err)
	}
	return answerOf(obj), nil
}

// isFor says whether a request is the one that ask would make.
func (o *Outside) isFor(obj *unstructured.Unstructured, s Serving, key crypto.Signer) bool {
	ref, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "issuerRef")
	if (IssuerRef{Group: ref["group"], Kind: ref["kind"], Name: ref["name"]}) != o.Ref {
		return false
	}
	block, _ := pem.Decode(bytesAt(obj, "spec", "request"))
	if block == nil {
		return false
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return false
	}
	same, ok := csr.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && same.Equal(key.Public()) && slices.Equal(csr.DNSNames, s.Hosts)
}

// bytesAt is a field of bytes, which are base64 in JSON; nil where there are none.
func bytesAt(obj *unstructured.Unstructured, path ...string) []byte {
	text, _, _ := unstructured.NestedString(obj.Object, path...)
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return decoded
}

// answerOf reads the status of a request.
func answerOf(obj *unstructured.Unstructured) answer {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	reasons, messages := map[string]string{}, map[string]string{}
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		kind, _ := c["type"].(string)
		status, _ := c["status"].(string)
		reason, _ := c["reason"].(string)
		reasons[kind+"="+status] = reason
		messages[kind+"="+status], _ = c["message"].(string)
	}
	name := obj.GetKind() + " " + obj.GetName()
	over := func(what, message string) answer {
		text, _, _ := unstructured.NestedString(obj.Object, "status", "failureTime")
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			at = obj.GetCreationTimestamp().Time
		}
		return answer{standing: failed, trouble: true, at: at, message: fmt.Sprintf("%s %s: %s", name, what, message)}
	}
	cert := bytesAt(obj, "status", "certificate")
	for _, refusal := range []struct{ condition, what string }{{"Denied=True", "was denied"}, {"InvalidRequest=True", "is invalid"}} {
		if _, found := reasons[refusal.condition]; found {
			return over(refusal.what, messages[refusal.condition])
		}
	}
	if _, ready := reasons["Ready=True"]; ready && len(cert) > 0 {
		return answer{standing: granted, cert: cert, authority: bytesAt(obj, "status", "ca")}
	}
	switch message, told := messages["Ready=False"]; {
	case reasons["Ready=False"] == "Failed" || reasons["Ready=False"] == "Denied":
		return over("failed", message)
	case told:
		return answer{standing: waiting, message: name + " is not ready: " + message}
	}
	return answer{standing: waiting, message: name + " has no answer from cert-manager, or waits for an approval"}
}

// hindrance turns the failure of a call into an answer, where the flow or pool can go on without. What ends the reconcile stays an error.
func hindrance(ctx context.Context, err error) (answer, error) {
	taken := (*children.NameConflictError)(nil)
	switch {
	case ctx.Err() != nil || children.NamespaceTerminating(err):
		return answer{}, fmt.Errorf("asking for a certificate: %w", err)
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return answer{standing: waiting, trouble: true, message: "cert-manager is not installed: the cluster has no CertificateRequest of " + certManager + "/v1"}, nil
	case errors.As(err, &taken):
		return answer{standing: waiting, trouble: true, message: taken.Error()}, nil
	}
	return answer{standing: waiting, trouble: true, message: "asking for a certificate: " + err.Error()}, nil
}
