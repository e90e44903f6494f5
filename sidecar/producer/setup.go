package producer

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/transport"
)

// newMember makes this process's part in the flow.
func (s *sidecar) newMember(document runtimeconfig.Producer, authenticator transport.Authenticator) (*member, error) {
	m := &member{
		log: s.Log.WithName("member"), queue: s.volume, shared: s.volume.shared,
		ask:       func(ctx context.Context, address string) fencing.Answer { return ask(ctx, s.peer(address)) },
		times:     s.times,
		configure: func(p *endpoint.Producer) { configure(p, s.wanted.Load().Value) },
		self:      fencing.Member{Pod: s.PodName, PodUID: s.Incarnation.PodUID, BootNonce: s.Incarnation.BootNonce},
	}
	m.halt = func(f delivery.Failed) (haltRecord, bool) { return haltOf(s.document.Load().Value, f) }
	m.nonce = func() int64 { return s.wanted.Load().Value.RecoverNonce }
	m.take = func(owner, word string, failed func(delivery.Failed)) (*endpoint.Producer, int64) {
		document := s.wanted.Load().Value
		halted, err := haltedBy(s.HaltFile, word, document)
		if err != nil {
			s.Log.Error(err, "The record of an earlier failure can be neither read nor replaced: every restart ends here until it is removed")
		}
		return endpoint.NewProducer(endpoint.ProducerOptions{
			Config:           controllerConfig(document),
			Queue:            s.volume,
			Owner:            owner,
			Log:              s.Log.WithName("controller"),
			OperationTimeout: seconds(document.OperationTimeoutSec),
			Intake:           intakeOf(document),
			HandOver:         m.shared,
			Halted:           halted,
			OnFailed: func(f delivery.Failed) {
				s.failed(f)
				failed(f)
			},
			Authenticator: authenticator,
		}), document.RecoverNonce
	}
	if m.shared {
		if s.Host == "" {
			return nil, errors.New("the environment variable " + runtimeconfig.EnvPodIP + " is missing: the operator sets it when it builds the pod")
		}
		m.self.Intake, m.self.Streams = reachedAt(s.Host, s.IntakeAddress), reachedAt(s.Host, s.TransportAddress)
		m.lease = s.Lease
		if s.Options.Authenticator == nil {
			lease, err := fencing.NewLeaseFromFiles(s.APIDir, document.Namespace, runtimeconfig.ProducerName(document.Flow))
			if err != nil {
				return nil, err
			}
			m.lease = lease
		}
	}
	silence, beat := s.times()
	m.init(fencing.CandidateConfig{
		Self: m.self, Silence: silence, Beat: beat, Patience: ownerPatience, Random: endpoint.CryptoRandom{}.Float64,
	})
	return m, nil
}

// Bounds of the pace at which members look for each other.
const (
	slowestBeat = time.Second
	fastestBeat = 100 * time.Millisecond
)

// times are those that the flow gives its workers: whoever is silent for longer than spec.liveness.deadlineSeconds is given up.
func (s *sidecar) times() (silence, beat time.Duration) {
	liveness := controllerConfig(s.wanted.Load().Value)
	return liveness.Deadline, min(max(liveness.Heartbeat/4, fastestBeat), slowestBeat)
}

// configure puts the tunables of a document in force.
func configure(p *endpoint.Producer, document runtimeconfig.Producer) {
	p.SetStreamTimeout(seconds(document.StreamTimeoutSec))
	p.SetOperationTimeout(seconds(document.OperationTimeoutSec))
	p.Reconfigure(controllerConfig(document))
	p.SetIntake(intakeOf(document))
}

// host is the name that every producer of the flow proves.
func (s *sidecar) host() string {
	document := s.document.Load().Value
	return runtimeconfig.ProducerHost(document.Flow, document.Namespace)
}

// peer is the member at an address.
func (s *sidecar) peer(address string) transport.Peer {
	return transport.Peer{Address: address, TLS: transport.ClientTLS(s.CAFile, s.host())}
}

// ownPeer is the member at an address, for what the app beside sends there: it goes with this pod's token.
func (s *sidecar) ownPeer(address string) transport.Peer {
	peer := s.peer(address)
	peer.TokenFile = s.TokenFile
	return peer
}

// reachedAt is where others find what listens on address.
func reachedAt(host, address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// lingerTime is how long a member that has given the seat up still passes requests on, until the Services have left it out.
const lingerTime = 3 * time.Second

// linger passes requests on before the intake closes, where there are others to pass them on to.
func (s *sidecar) linger(ctx context.Context) {
	if s.document.Load().Value.Replicas < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lingerTime)
	defer cancel()
	s.member.follow(ctx)
}
