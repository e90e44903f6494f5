package standalone

import (
	"fmt"
	"os"
	"strings"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/manifest"
)

// Sources of a connection string. It is never an argument of its own, because everybody on the machine can read those.
const (
	fromEnvironment = "env:"
	fromFile        = "file:"
)

// checkConnection says early that a PostgreSQL flow has no connection string.
func (p *plan) checkConnection(flow manifest.Flow, o Options) error {
	if flow.Spec.Queue.Type != v1alpha1.QueuePostgreSQL {
		if _, said := o.Connections[flow.Name]; said {
			return fmt.Errorf("--dsn %s: the queue of this flow is %s, not PostgreSQL", flow.Name, flow.Spec.Queue.Type)
		}
		return nil
	}
	_, err := p.connection(flow, o)
	return err
}

// connection is the connection string of a PostgreSQL flow: what the options name, or else what is in a Secret of the manifests.
func (p *plan) connection(flow manifest.Flow, o Options) (string, error) {
	source, said := o.Connections[flow.Name]
	if !said {
		ref := flow.Spec.Queue.PostgreSQL.ConnectionSecretRef
		if secret := p.set.Secret(flow.Namespace, ref.Name); secret != nil {
			if value := strings.TrimSpace(string(secret.Data[orElse(ref.Key, "dsn")])); value != "" {
				return value, nil
			}
		}
		return "", fmt.Errorf("%s: flow %s keeps its jobs in PostgreSQL, and the Secret %s with the key %s is not in the manifests: add it with -f, or say where the connection string is, for example\n"+
			"\t--dsn %s=env:DATABASE_URL", flow.At, flow.Name, ref.Name, orElse(ref.Key, "dsn"), flow.Name)
	}
	name, isVariable := strings.CutPrefix(source, fromEnvironment)
	file, isFile := strings.CutPrefix(source, fromFile)
	switch {
	case isVariable:
		value, _ := newEnvironment(o.Environ).lookup(name)
		if value == "" {
			return "", fmt.Errorf("--dsn %s=%s: this variable is not set", flow.Name, source)
		}
		return value, nil
	case isFile:
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("--dsn %s: %w", flow.Name, err)
		}
		return strings.TrimSpace(string(raw)), nil
	}
	return "", fmt.Errorf("--dsn %s: the source must be env:NAME or file:PATH, because everybody on this machine can read the arguments of a program", flow.Name)
}

// secretVariables are the names of variables that hold connection strings. Apps do not inherit them.
func secretVariables(o Options) map[string]bool {
	names := map[string]bool{}
	for _, source := range o.Connections {
		if name, ok := strings.CutPrefix(source, fromEnvironment); ok {
			names[name] = true
		}
	}
	return names
}
