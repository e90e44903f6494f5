package workpulling

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// FlowInNamespace is a flow in Kubernetes as programs of the cluster reach it.
func FlowInNamespace(name, namespace string) Flow {
	host := runtimeconfig.ProducerHost(name, namespace)
	return Flow{Name: name, Address: net.JoinHostPort(host, strconv.Itoa(runtimeconfig.PortTransport)), ServerName: host}
}

// fromPod takes the flows from the operator's document, and from it what is zero.
func (o *WorkerOptions) fromPod(place runtimeconfig.Place) error {
	raw, err := os.ReadFile(place.Path(runtimeconfig.ConfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("workpulling: a worker needs flows")
	}
	if err != nil {
		return fmt.Errorf("reading the pod's configuration: %w", err)
	}
	var document runtimeconfig.Worker
	if err := json.Unmarshal(raw, &document); err != nil {
		return fmt.Errorf("reading the pod's configuration: %w", err)
	}
	for _, flow := range document.AllFlows() {
		o.Flows = append(o.Flows, Flow{Name: flow.Name, Address: flow.ProducerAddress, ServerName: flow.ProducerHost})
	}
	if o.Window == 0 {
		o.Window = document.Window
	}
	if o.Concurrency == 0 {
		o.Concurrency = document.Concurrency
	}
	if o.HandlerTimeout == 0 {
		o.HandlerTimeout = time.Duration(document.HandlerTimeoutSec) * time.Second
	}
	return nil
}
