//go:build e2e

package e2e

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/test/harness"
)

// podToken asks for a token as kubelet does for a projected volume: bound to a pod.
func (b *bed) podToken(ctx context.Context, pod, audience string) string {
	GinkgoHelper()
	words, err := b.get(ctx, "get", "pod", pod, "-o", "jsonpath={.spec.serviceAccountName} {.metadata.uid}")
	Expect(err).NotTo(HaveOccurred())
	account, uid, _ := strings.Cut(words, " ")
	args := []string{"create", "token", account, "--bound-object-kind=Pod", "--bound-object-name=" + pod, "--bound-object-uid=" + uid}
	if audience != "" {
		args = append(args, "--audience="+audience)
	}
	token, err := b.get(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(token)
}

// legacyToken is one of a Secret, which the token controller fills.
func (b *bed) legacyToken(ctx context.Context, account string) string {
	GinkgoHelper()
	Expect(kubectl.Apply(ctx, `apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: legacy, namespace: `+b.namespace+`, annotations: {kubernetes.io/service-account.name: `+account+`}}
`)).To(Succeed())
	var token []byte
	Eventually(func(g Gomega) {
		encoded, err := b.get(ctx, "get", "secret", "legacy", "-o", "jsonpath={.data.token}")
		g.Expect(err).NotTo(HaveOccurred())
		token, err = base64.StdEncoding.DecodeString(encoded)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(token).NotTo(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
	return string(token)
}

// aged is the token that the API server would have made some time before this one: the same claims, moved back, under the cluster's own
// signing key. The shortest life that the API server gives is ten minutes, which is long to wait for.
func aged(token string, by time.Duration) string {
	GinkgoHelper()
	header, claims, _ := changed(token, func(all map[string]any) {
		for _, name := range []string{"exp", "iat", "nbf"} {
			all[name] = int64(all[name].(float64)) - int64(by.Seconds())
		}
	})
	return signed(header, claims)
}

// signed signs claims with the key of the local cluster; the header is that of a token of the API server.
func signed(header string, claims []byte) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "control-plane", "kubernetes", "pki", "service-account.key"))
	if err != nil {
		Skip("the signing key of this cluster is not here: " + err.Error())
	}
	block, _ := pem.Decode(text)
	Expect(block).NotTo(BeNil())
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	content := header + "." + base64.RawURLEncoding.EncodeToString(claims)
	hash := sha256.Sum256([]byte(content))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, hash[:])
	Expect(err).NotTo(HaveOccurred())
	return content + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// tampered says what the token says, and a little more, under the same signature.
func tampered(token string) string {
	GinkgoHelper()
	header, claims, signature := changed(token, func(all map[string]any) { all["exp"] = int64(all["exp"].(float64)) + 3600 })
	return header + "." + base64.RawURLEncoding.EncodeToString(claims) + "." + signature
}

// tokensIn are the files of the tokens that kubelet keeps for a pod of the local cluster, in memory that the pod's node alone has mounted.
func tokensIn(p pod) []string {
	GinkgoHelper()
	files, err := harness.LocalCluster(root).Tokens(GinkgoT().Context(), p.node, p.uid)
	Expect(err).NotTo(HaveOccurred())
	return files
}

// tokenIn is one of a pod's tokens.
func tokenIn(p pod) string {
	GinkgoHelper()
	token, err := os.ReadFile(tokensIn(p)[0])
	Expect(err).NotTo(HaveOccurred())
	return string(token)
}

// keyOf names the key that signed a token.
func keyOf(token string) string {
	GinkgoHelper()
	key, err := harness.SigningKey(token)
	Expect(err).NotTo(HaveOccurred())
	return key
}

// operatorPods are those of the operator.
func (b *bed) operatorPods(ctx context.Context) []pod {
	GinkgoHelper()
	return (&bed{namespace: harness.SystemNamespace}).podsOf(ctx, "")
}

// renew gives the load another token.
func (l *load) renew(ctx context.Context) {
	GinkgoHelper()
	token, err := l.bed.get(ctx, "create", "token", "submitter", "--audience=workpulling.dev", "--duration=2h")
	Expect(err).NotTo(HaveOccurred())
	l.token.Store(strings.TrimSpace(token))
}

// tokenFor is the token that a pod's volume holds for an audience.
func tokenFor(p pod, audience string) string {
	GinkgoHelper()
	for _, file := range tokensIn(p) {
		token, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		if strings.Contains(string(claimsOf(string(token))), `"`+audience+`"`) {
			return string(token)
		}
	}
	Fail("pod " + p.name + " has no token for " + audience)
	return ""
}

// claimsOf is what a token says.
func claimsOf(token string) []byte {
	GinkgoHelper()
	parts := strings.Split(token, ".")
	Expect(parts).To(HaveLen(3))
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	Expect(err).NotTo(HaveOccurred())
	return raw
}

// changed is a token's header, its claims as change left them, and its signature.
func changed(token string, change func(map[string]any)) (header string, claims []byte, signature string) {
	GinkgoHelper()
	all := map[string]any{}
	Expect(json.Unmarshal(claimsOf(token), &all)).To(Succeed())
	change(all)
	claims, err := json.Marshal(all)
	Expect(err).NotTo(HaveOccurred())
	parts := strings.Split(token, ".")
	return parts[0], claims, parts[2]
}
