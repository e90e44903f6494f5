package local

import (
	"bytes"
	_ "embed"
	"text/template"

	"github.com/workpulling/workpulling/hack/cluster/internal/address"
)

//go:embed manifests.yaml
var manifestText string

var manifestTemplate = template.Must(template.New("manifests").Parse(manifestText))

// manifests are the objects that make a bare API server a usable cluster: DNS, storage, and the rights of what serves them.
func manifests(p address.Plan) ([]byte, error) {
	var out bytes.Buffer
	err := manifestTemplate.Execute(&out, map[string]string{
		"DNSService": p.DNSService().String(),
		"DNSServer":  p.ControlPlane().String(),
	})
	return out.Bytes(), err
}
