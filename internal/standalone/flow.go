package standalone

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/manifest"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/sharedsecret"
	"github.com/workpulling/workpulling/sidecar/producer"
)

// configPoll is long, because the configuration of a run never changes.
const configPoll = time.Hour

// newProducer makes the producer of a flow: the sidecar of a producer pod, whose listeners are the door of the run and a loopback port.
func (r *run) newProducer(flow manifest.Flow) (*producer.Sidecar, error) {
	kept, err := r.data.flowDir(flow)
	if err != nil {
		return nil, err
	}
	uid, err := r.data.uid(flow)
	if err != nil {
		return nil, err
	}
	dir, err := r.data.runDir("flows", flow.Name)
	if err != nil {
		return nil, err
	}
	intake := runtimeconfig.IntakeOpen
	if flow.IsSuspended() {
		intake = runtimeconfig.IntakeSuspended
	}
	document := podbuilder.ProducerDocument(flow.WorkPullingFlow, intake)
	document.FlowUID, document.Replicas = uid, 1
	options := producer.Options{
		Log:         r.Log.WithValues("flow", flow.Name),
		Incarnation: protocol.Incarnation{PodUID: runtimeconfig.ProducerName(flow.Name), BootNonce: rand.Text()},
		PodName:     runtimeconfig.ProducerName(flow.Name), Host: loopback,
		ConfigFile: filepath.Join(dir, "config.json"), ConfigPoll: configPoll,
		CAFile: r.secretFile(sharedsecret.CAFile), TLSDir: string(r.secret), TokenFile: r.data.run("token"),
		DataDir: filepath.Join(kept, "queue"), LossFile: filepath.Join(kept, "volatile-jobs"), HaltFile: filepath.Join(kept, "failure.json"),
		QueueDir:         filepath.Join(dir, "queue"),
		TransportAddress: loopback + ":0",
		Authenticator:    r.plan.identity(r.authenticator, flow.Name),
		ProducerSocket:   r.producerSocket(flow.Name),
	}
	if flow.Spec.Queue.Type == v1alpha1.QueuePostgreSQL {
		document.QueueKey = orElse(document.QueueKey, "dsn")
		if err := r.writeConnection(flow, options.QueueDir, document.QueueKey); err != nil {
			return nil, err
		}
	}
	err = errors.Join(os.MkdirAll(options.DataDir, 0o700), writeDocument(options.ConfigFile, document))
	if err != nil {
		return nil, err
	}
	made, err := producer.New(options)
	if err != nil {
		return nil, fmt.Errorf("preparing the producer of flow %s: %w", flow.Name, err)
	}
	return made, nil
}

// longestSocket is the longest path of a Unix socket that every system takes.
const longestSocket = 103

// producerSocketPath is where programs open producer streams; empty where the data directory has too long a path for one more level.
func (r *run) producerSocketPath(flow string) string {
	if path := r.data.run("flows", flow, "producer.sock"); len(path) <= longestSocket {
		return path
	}
	return ""
}

// producerSocket is producerSocketPath, and says what to do where there is none.
func (r *run) producerSocket(flow string) string {
	path := r.producerSocketPath(flow)
	if path == "" {
		r.Screen.say("Flow %s: no socket for producer streams, because its path would be too long: a shorter --data helps", flow)
	}
	return path
}

// writeConnection puts the connection string where the volume of its Secret would be.
func (r *run) writeConnection(flow manifest.Flow, dir, key string) error {
	connection, err := r.plan.connection(flow, r.Options)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, key), []byte(connection), 0o600))
}

func writeDocument[T runtimeconfig.Producer | runtimeconfig.Worker](file string, document T) error {
	text, _, err := runtimeconfig.Marshal(document)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing a configuration: %w", err)
	}
	return nil
}
