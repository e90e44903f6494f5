// Package certmanager stands in for cert-manager in tests: it answers CertificateRequests as cert-manager's own controllers do for an issuer of
// kind CA, with real certificates. It is here because the tests run where no registry with cert-manager's image can be reached. What it
// does not show is how the true one validates requests and what other kinds of issuers answer.
package certmanager

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is the kind of a request.
var Kind = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateRequest"}

// CA is an issuer of kind CA.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes an authority that is good for ten years.
func NewCA(name string, now time.Time) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(10 * 365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	return &CA{cert, key}, err
}

// PEM is the certificate of the authority.
func (c *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw})
}

// Cert is the certificate of the authority.
func (c *CA) Cert() *x509.Certificate { return c.cert }

// Sign makes a certificate of a template and a public key.
func (c *CA) Sign(template *x509.Certificate, public any) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	raw, err := x509.CreateCertificate(rand.Reader, template, c.cert, public, c.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), nil
}

// Manager answers requests.
type Manager struct {
	Client client.Client
	Clock  clock.PassiveClock
	// Issuers are the ClusterIssuers that there are.
	Issuers map[string]*CA
	// Deny is why every request is denied; empty denies none. Life replaces the duration that is asked for. Mute answers nothing.
	Deny string
	Life time.Duration
	Mute bool
	// Edit changes an answer before it is written.
	Edit func(status map[string]any)
	// Issued counts the certificates that were given.
	Issued int
}

// Answer answers all requests that have no final answer yet.
func (m *Manager) Answer(ctx context.Context) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(Kind)
	if err := m.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing requests: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if !m.Mute && !final(&list.Items[i]) {
			errs = append(errs, client.IgnoreNotFound(m.answer(ctx, &list.Items[i])))
		}
	}
	return errors.Join(errs...)
}

func final(request *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(item any) bool {
		c, _ := item.(map[string]any)
		return c["type"] == "Ready" && c["reason"] != "Pending"
	})
}

func (m *Manager) answer(ctx context.Context, request *unstructured.Unstructured) error {
	name, _, _ := unstructured.NestedString(request.Object, "spec", "issuerRef", "name")
	kind, _, _ := unstructured.NestedString(request.Object, "spec", "issuerRef", "kind")
	issuer, found := m.Issuers[name]
	now := m.Clock.Now()
	status := map[string]any{}
	switch {
	case m.Deny != "":
		status["failureTime"] = now.UTC().Format(time.RFC3339)
		status["conditions"] = []any{
			condition(now, "Denied", "True", "policy", m.Deny),
			condition(now, "Ready", "False", "Denied", "The CertificateRequest was denied by an approval controller"),
		}
	case !found || kind != "ClusterIssuer":
		message := fmt.Sprintf("Referenced %q not found: %q", kind, name)
		status["conditions"] = []any{approved(now), condition(now, "Ready", "False", "Pending", message)}
	default:
		signed, err := m.sign(request, issuer, now)
		if err != nil {
			return err
		}
		m.Issued++
		status["certificate"], status["ca"] = base64.StdEncoding.EncodeToString(signed), base64.StdEncoding.EncodeToString(issuer.PEM())
		status["conditions"] = []any{approved(now), condition(now, "Ready", "True", "Issued", "Certificate fetched from issuer successfully")}
	}
	if m.Edit != nil {
		m.Edit(status)
	}
	request.Object["status"] = status
	return m.Client.Status().Update(ctx, request)
}

func (m *Manager) sign(request *unstructured.Unstructured, issuer *CA, now time.Time) ([]byte, error) {
	text, _, _ := unstructured.NestedString(request.Object, "spec", "request")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("no signing request")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, err
	}
	asked, _, _ := unstructured.NestedString(request.Object, "spec", "duration")
	life, err := time.ParseDuration(asked)
	if err != nil {
		return nil, err
	}
	if m.Life > 0 {
		life = m.Life
	}
	template := &x509.Certificate{Subject: csr.Subject, DNSNames: csr.DNSNames, NotBefore: now, NotAfter: now.Add(life)}
	usages, _, _ := unstructured.NestedStringSlice(request.Object, "spec", "usages")
	for _, usage := range usages {
		switch usage {
		case "digital signature":
			template.KeyUsage |= x509.KeyUsageDigitalSignature
		case "server auth":
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		default:
			return nil, fmt.Errorf("usage %q is not known", usage)
		}
	}
	return issuer.Sign(template, csr.PublicKey)
}

func approved(now time.Time) map[string]any {
	return condition(now, "Approved", "True", "cert-manager.io", "Certificate request has been approved by cert-manager.io")
}

func condition(now time.Time, kind, status, reason, message string) map[string]any {
	return map[string]any{
		"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now.UTC().Format(time.RFC3339),
	}
}
