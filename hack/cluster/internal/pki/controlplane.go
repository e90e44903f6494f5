package pki

import (
	"fmt"
	"net"
	"os"
	"time"
)

// ControlPlane holds the authorities of one cluster and its directory of key files.
type ControlPlane struct {
	Dir        string
	CA         *Authority
	FrontProxy *Authority
}

// apiNames are the names under which pods reach the API server.
var apiNames = []string{
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost",
}

// NewControlPlane makes and writes to dir: ca, front-proxy-ca, apiserver, apiserver-kubelet-client, front-proxy-client
// (each .crt and .key) and service-account (.key and .pub). The apiserver's certificate holds for the given addresses.
func NewControlPlane(dir string, now time.Time, apiAddresses ...net.IP) (*ControlPlane, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the key directory: %w", err)
	}
	c := &ControlPlane{Dir: dir}
	var err error
	if c.CA, err = NewAuthority("kubernetes", now); err != nil {
		return nil, err
	}
	if c.FrontProxy, err = NewAuthority("front-proxy", now); err != nil {
		return nil, err
	}
	if err := c.CA.Write(dir, "ca"); err != nil {
		return nil, err
	}
	if err := c.FrontProxy.Write(dir, "front-proxy-ca"); err != nil {
		return nil, err
	}
	for _, leaf := range []struct {
		file    string
		by      *Authority
		subject Subject
	}{
		{"apiserver", c.CA, Subject{CommonName: "kube-apiserver", Names: apiNames, IPs: apiAddresses}},
		{"apiserver-kubelet-client", c.CA, Subject{CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}}},
		{"front-proxy-client", c.FrontProxy, Subject{CommonName: "front-proxy-client"}},
	} {
		pair, err := leaf.by.Issue(leaf.subject)
		if err != nil {
			return nil, err
		}
		if err := pair.Write(dir, leaf.file); err != nil {
			return nil, err
		}
	}
	return c, WriteSigningKey(dir, "service-account")
}
