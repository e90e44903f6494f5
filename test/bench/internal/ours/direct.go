package ours

import (
	"context"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/test/bench/internal/postgresserver"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Direct is a producing app and workers that link the Go packages, in processes of their own over loopback gRPC.
type Direct struct {
	Backend Backend
	// TLS is what a flow always has; without it the same work is comparable with peers that have none.
	TLS  bool
	flow *flow
}

// Name implements trial.System.
func (d *Direct) Name() string {
	name := "direct-" + string(d.Backend)
	if !d.TLS {
		name += "-plain"
	}
	return name
}

// Settings implements trial.System.
func (d *Direct) Settings() string {
	security := "TLS 1.3"
	if !d.TLS {
		security = "no TLS"
	}
	return "producer and workers in two processes, gRPC over loopback, " + security + "; " + d.Backend.settings()
}

// Available implements trial.System.
func (d *Direct) Available() error {
	if d.Backend == PostgreSQL {
		return postgresserver.Available()
	}
	return nil
}

// Names of what is told from process to process.
const (
	toldAddress  = "address"
	toldDatabase = "database"
)

// Processes implements trial.System.
func (d *Direct) Processes(s *trial.Stage) []trial.Process {
	processes := trial.TwoProcesses(s, "flow")
	if d.Backend == PostgreSQL {
		processes = append([]trial.Process{{Name: "database", Serve: []string{"database"}}}, processes...)
	}
	return processes
}

// Serve implements trial.System.
func (d *Direct) Serve(ctx context.Context, s *trial.Stage, role string) (func() error, error) {
	if role == "database" {
		return postgresserver.Serve(ctx, s, toldDatabase)
	}
	url := ""
	if d.Backend == PostgreSQL {
		var err error
		if url, err = s.Told(toldDatabase); err != nil {
			return nil, err
		}
	}
	queue, err := d.Backend.open(ctx, s, url)
	if err != nil {
		return nil, err
	}
	d.flow = startFlow(ctx, queue)
	var certificates *authority
	if d.TLS {
		if certificates, err = newAuthority(s.Dir); err != nil {
			return nil, err
		}
		if err := certificates.issue(serverName); err != nil {
			return nil, err
		}
	}
	address, err := d.flow.listen(certificates)
	if err != nil {
		return nil, err
	}
	return d.flow.stop, s.Tell(toldAddress, address)
}

// Produce implements trial.System.
func (d *Direct) Produce(context.Context, *trial.Stage) (trial.Submitter, error) {
	pace := trial.Pace{Callers: 8, Batch: 64}
	if d.Backend != Memory {
		pace = trial.Pace{Callers: 16, Batch: 128} // a commit takes long, so that more of it pays
	}
	return submitter{producer: d.flow.Producer, pace: pace}, nil
}

// Consume implements trial.System.
func (d *Direct) Consume(ctx context.Context, s *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	address, err := s.Told(toldAddress)
	if err != nil {
		return nil, err
	}
	if !d.TLS {
		return startWorker(ctx, s, worker, handle, dialPlain(address, "pod:"+uidOf(worker)))
	}
	token, err := writeToken(s, uidOf(worker), "pod:"+uidOf(worker))
	if err != nil {
		return nil, err
	}
	peer := transport.Peer{Address: address, TLS: transport.ClientTLS(caFile(s.Dir), serverName), TokenFile: token}
	return startWorker(ctx, s, worker, handle, endpoint.DialPeer(func() transport.Peer { return peer }))
}
