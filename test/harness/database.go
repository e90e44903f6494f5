package harness

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
)

// Database is a PostgreSQL server beside a local cluster, which pods reach over TLS at the address that this machine has for the nodes.
type Database struct {
	*postgrestest.Server
	Host string
	// Name is the database, Role its user, who has what docs/operations.md asks for and no more.
	Name, Role string

	certificate, key []byte
}

// NewDatabase plans a server that the pods of a cluster reach. Settings are those to start it with, before Encrypt.
func NewDatabase(ctx context.Context, kubectl *Kubectl, name, role string) (d *Database, settings []string, err error) {
	d = &Database{Name: name, Role: role}
	if d.Host, err = hostAddress(ctx, kubectl); err != nil {
		return nil, nil, err
	}
	d.certificate, d.key, err = selfSigned(d.Host)
	return d, []string{"listen_addresses=127.0.0.1," + d.Host}, err
}

// hostAddress is that of this machine on the way to the first node. Nothing is sent.
func hostAddress(ctx context.Context, kubectl *Kubectl) (string, error) {
	node, err := kubectl.Get(ctx, "get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	if err != nil {
		return "", err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "udp", net.JoinHostPort(node, "9"))
	if err != nil {
		return "", fmt.Errorf("looking for the way to node %s: %w", node, err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String(), nil
}

// Encrypt gives the server, which runs, a certificate for its address, and lets nobody in from there without TLS and a password. Then it
// makes the database and its user.
func (d *Database) Encrypt(ctx context.Context, password string) error {
	data, err := os.Stat(filepath.Join(d.Dir, "data"))
	if err != nil {
		return fmt.Errorf("looking at the server's directory: %w", err)
	}
	owner := data.Sys().(*syscall.Stat_t)
	for name, content := range map[string][]byte{"server.crt": d.certificate, "server.key": d.key} {
		path := filepath.Join(d.Dir, "data", name)
		if err := errors.Join(os.WriteFile(path, content, 0o600), os.Chown(path, int(owner.Uid), int(owner.Gid))); err != nil {
			return fmt.Errorf("writing the server's certificate: %w", err)
		}
	}
	rules, err := os.OpenFile(filepath.Join(d.Dir, "data", "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("opening the server's rules: %w", err)
	}
	_, err = rules.WriteString("\nhostssl all all 0.0.0.0/0 scram-sha-256\n")
	if err := errors.Join(err, rules.Close()); err != nil {
		return fmt.Errorf("writing the server's rules: %w", err)
	}
	for _, sql := range []string{
		"ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()", "CREATE ROLE " + d.Role + " LOGIN PASSWORD '" + password + "'",
		"CREATE DATABASE " + d.Name, "GRANT CONNECT, CREATE ON DATABASE " + d.Name + " TO " + d.Role,
	} {
		if err := d.Exec(ctx, "postgres", sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// selfSigned is a certificate for an address that is its own authority, and its key.
func selfSigned(address string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "database of the tests"}, IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

// DSN is the connection string as config/samples/postgresql writes it.
func (d *Database) DSN(user, password string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password), Host: net.JoinHostPort(d.Host, strconv.Itoa(d.Port)), Path: d.Name,
		RawQuery: "sslmode=verify-full&sslrootcert=/etc/workpulling/queue/ca.crt",
	}
	return u.String()
}

// Secret makes or changes the Secret with a connection string and what verifies the server.
func (d *Database) Secret(ctx context.Context, kubectl *Kubectl, namespace, name, dsn string) error {
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]string{"name": name, "namespace": namespace},
		"stringData": map[string]string{"dsn": dsn, "ca.crt": string(d.certificate)},
	})
	if err != nil {
		return err
	}
	return kubectl.Apply(ctx, string(object))
}
