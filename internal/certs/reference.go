package certs

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// certManager is the API group of cert-manager, and of the issuers that come with it.
const certManager = "cert-manager.io"

// IssuerRef names an issuer of cert-manager. The zero value names none: the operator's own authority signs.
type IssuerRef struct {
	Group, Kind, Name string
}

// ParseIssuerRef reads <kind>[.<group>]/<name>. The group is cert-manager.io where none is given; an empty text is the zero value.
func ParseIssuerRef(text string) (IssuerRef, error) {
	if text == "" {
		return IssuerRef{}, nil
	}
	kinds, name, _ := strings.Cut(text, "/")
	kind, group, external := strings.Cut(kinds, ".")
	if !external {
		group = certManager
	}
	ref := IssuerRef{Group: group, Kind: kind, Name: name}
	switch {
	case kind == "" || len(validation.IsDNS1123Subdomain(name)) > 0 || len(validation.IsDNS1123Subdomain(group)) > 0:
		return IssuerRef{}, fmt.Errorf("%q does not name an issuer as <kind>[.<group>]/<name>, such as ClusterIssuer/workpulling", text)
	case group == certManager && kind != "Issuer" && kind != "ClusterIssuer":
		return IssuerRef{}, fmt.Errorf("%q names no kind of issuer of %s: there are Issuer and ClusterIssuer", text, certManager)
	}
	return ref, nil
}

// String is the form that ParseIssuerRef reads, with the group.
func (r IssuerRef) String() string {
	if r == (IssuerRef{}) {
		return ""
	}
	return r.Kind + "." + r.Group + "/" + r.Name
}
