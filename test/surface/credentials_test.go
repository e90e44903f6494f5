package surface

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// credential is a way to call: a column of the table.
type credential string

const (
	none            credential = "nothing"
	plain           credential = "a submitter's token, without TLS"
	otherCA         credential = "a client certificate of another CA, in the operator's name"
	serverCert      credential = "the certificate of a producer"
	operatorCert    credential = "the operator's client certificate"
	garbage         credential = "a token that is none"
	ownAudience     credential = "a token for the API server"
	otherAudience   credential = "a token for another audience"
	otherNamespace  credential = "a token of another namespace"
	stranger        credential = "a token of a ServiceAccount without rights"
	submitter       credential = "a submitter's token"
	keeper          credential = "a token with every verb"
	workerToken     credential = "a worker's token"
	member          credential = "the token of another producer of the flow"
	neighbour       credential = "nothing, from a pod of a trusted namespace"
	outsider        credential = "nothing, from elsewhere, while the namespace is trusted"
	neighbourForged credential = "a token for another audience, from a pod of a trusted namespace"
)

// columns are those of the table, in its order.
var columns = []credential{
	none, plain, otherCA, serverCert, operatorCert, garbage, ownAudience, otherAudience, otherNamespace, stranger, submitter, keeper, workerToken, member,
	neighbour, outsider, neighbourForged,
}

// trusting says whether the switch of the intake is on where a credential is tried.
func (c credential) trusting() bool { return c == neighbour || c == outsider || c == neighbourForged }

// from is the address that a credential is tried from.
func (c credential) from() net.Addr {
	host := "127.0.0.1"
	switch c {
	case neighbour, neighbourForged:
		host = localWeb
	case outsider:
		host = localOther
	default: // all others come from anywhere
	}
	return &net.TCPAddr{IP: net.ParseIP(host)}
}

// bearer is the token of a credential, "" for none.
func (w *world) bearer(c credential) string {
	w.t.Helper()
	of := func(in, account string, audience ...string) string {
		return w.cluster.token(w.t, in, account, audience...)
	}
	switch c {
	case garbage:
		return "e30.e30.e30"
	case ownAudience:
		return of(namespace, "submitter", issuer)
	case otherAudience, neighbourForged:
		return of(namespace, "submitter", "vault")
	case otherNamespace:
		return of("other", "submitter", runtimeconfig.TokenAudience)
	case stranger:
		return of(namespace, "stranger", runtimeconfig.TokenAudience)
	case submitter, plain:
		return of(namespace, "submitter", runtimeconfig.TokenAudience)
	case keeper:
		return of(namespace, "keeper", runtimeconfig.TokenAudience)
	case workerToken:
		return of(namespace, "worker", runtimeconfig.TokenAudience)
	case member:
		return of(namespace, "member", runtimeconfig.TokenAudience)
	default:
		return ""
	}
}

// clientTLS is how a credential meets a server called host.
func (w *world) clientTLS(c credential, host string) *tls.Config {
	w.t.Helper()
	config := transport.ClientTLS(w.authority.CAFile(), host)
	issued := func(a *transporttest.Authority, name string, usage x509.ExtKeyUsage) *tls.Config {
		certFile, keyFile := a.IssueFor(w.t, name, usage)
		return transporttest.WithCertificate(w.t, config, certFile, keyFile)
	}
	switch c {
	case otherCA:
		return issued(w.foreign, runtimeconfig.OperatorCommonName, x509.ExtKeyUsageClientAuth)
	case serverCert:
		return issued(w.authority, producerHost, x509.ExtKeyUsageServerAuth)
	case operatorCert:
		return issued(w.authority, runtimeconfig.OperatorCommonName, x509.ExtKeyUsageClientAuth)
	default:
		return config
	}
}

// A table of which two columns are the same by mistake would say nothing.
func TestCredentialsDiffer(t *testing.T) {
	w := &world{t: t, cluster: newCluster(t), authority: transporttest.NewAuthority(t), foreign: transporttest.NewAuthority(t)}
	seen := map[string]credential{}
	for _, c := range columns {
		token := w.bearer(c)
		if token == "" || c == plain || c == neighbourForged {
			continue
		}
		if other, twice := seen[token]; twice {
			t.Errorf("%s and %s are one token", c, other)
		}
		seen[token] = c
	}
}
