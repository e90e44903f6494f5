//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
)

// database is a PostgreSQL server beside the cluster, which pods reach over TLS at the address that this machine has for the nodes.
type database struct {
	*postgrestest.Server
	host string
	ca   []byte
}

// role and jobs are the user and the database of a flow. The user has what docs/operations.md asks for, and no more.
const (
	role = "invoices"
	jobs = "jobs"
)

// newDatabase starts a server that ends with the spec. Call it before newBed, so that it outlives the flows.
func newDatabase(ctx context.Context) *database {
	GinkgoHelper()
	if os.Getenv("CLUSTER_NAME") == "" {
		Skip("pods reach a database of this machine in a local cluster only")
	}
	d := &database{host: hostAddress(ctx)}
	d.Server = postgrestest.Start(GinkgoTB(), "listen_addresses=127.0.0.1,"+d.host)
	d.encrypt(ctx)
	d.exec(ctx, "postgres", "CREATE ROLE "+role+" LOGIN PASSWORD 'first'")
	d.exec(ctx, "postgres", "CREATE DATABASE "+jobs)
	d.exec(ctx, "postgres", "GRANT CONNECT, CREATE ON DATABASE "+jobs+" TO "+role)
	return d
}

// hostAddress is that of this machine on the way to the first node. Nothing is sent.
func hostAddress(ctx context.Context) string {
	GinkgoHelper()
	node, err := kubectl.Get(ctx, "get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	Expect(err).NotTo(HaveOccurred())
	conn, err := new(net.Dialer).DialContext(ctx, "udp", net.JoinHostPort(node, "9"))
	Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String()
}

// encrypt gives the server a certificate for its address, and lets nobody in from there without TLS and a password.
func (d *database) encrypt(ctx context.Context) {
	GinkgoHelper()
	certificate, key := selfSigned(d.host)
	d.ca = certificate
	data, err := os.Stat(filepath.Join(d.Dir, "data"))
	Expect(err).NotTo(HaveOccurred())
	owner := data.Sys().(*syscall.Stat_t)
	for name, content := range map[string][]byte{"server.crt": certificate, "server.key": key} {
		path := filepath.Join(d.Dir, "data", name)
		Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
		Expect(os.Chown(path, int(owner.Uid), int(owner.Gid))).To(Succeed())
	}
	rules, err := os.OpenFile(filepath.Join(d.Dir, "data", "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	Expect(err).NotTo(HaveOccurred())
	_, err = rules.WriteString("\nhostssl all all 0.0.0.0/0 scram-sha-256\n")
	Expect(err).NotTo(HaveOccurred())
	Expect(rules.Close()).To(Succeed())
	d.exec(ctx, "postgres", "ALTER SYSTEM SET ssl = on")
	d.exec(ctx, "postgres", "SELECT pg_reload_conf()")
}

// selfSigned is a certificate for an address that is its own authority, and its key.
func selfSigned(address string) (certificate, key []byte) {
	GinkgoHelper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "database of the tests"}, IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	Expect(err).NotTo(HaveOccurred())
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func (d *database) exec(ctx context.Context, database, sql string) {
	GinkgoHelper()
	Expect(d.Exec(ctx, database, sql)).To(Succeed())
}

// disconnect ends every session of a role.
func (d *database) disconnect(ctx context.Context, role string) {
	GinkgoHelper()
	d.exec(ctx, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+role+"'")
}

// sessions counts the sessions of a role.
func (d *database) sessions(ctx context.Context, role string) (n int, err error) {
	conn, err := pgx.Connect(ctx, d.SuperURL("postgres"))
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE usename = $1", role).Scan(&n)
	return n, err
}

// dsn is the connection string as the sample writes it.
func (d *database) dsn(user, password string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password), Host: net.JoinHostPort(d.host, fmt.Sprint(d.Port)), Path: jobs,
		RawQuery: "sslmode=verify-full&sslrootcert=/etc/workpulling/queue/ca.crt",
	}
	return u.String()
}

// secret is the Secret that the sample names.
func (d *database) secret(ctx context.Context, b *bed, dsn string) {
	GinkgoHelper()
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]string{"name": "invoices-db", "namespace": b.namespace},
		"stringData": map[string]string{"dsn": dsn, "ca.crt": string(d.ca)},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(kubectl.Apply(ctx, string(object))).To(Succeed())
}
