package workpulling

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// ClientOptions configure a Client. The zero values mean the defaults stated.
type ClientOptions struct {
	// Identity is the submitter's. Its Name is not used.
	Identity Identity
	// MaxPending is how many asynchronous submissions may be without an answer (1,024). The producer gives each client credit for 64 at a
	// time by default; the others wait here.
	MaxPending int
	// CreditWait is how long a submission waits for a connection and for credit before it is refused (30 s).
	CreditWait time.Duration
	// ManualAcknowledge makes every Receipt wait for Acknowledge, see ProducerOptions. An unacknowledged receipt takes a credit.
	ManualAcknowledge bool
	// StopGrace is how long Run goes on, at most, when its context has ended, for answers that are under way (5 s).
	StopGrace time.Duration
	// OnConfirmed, where it is set, is told that a job of the flow is confirmed, whoever submitted it: best effort, and from a flow in
	// Kubernetes only where it has deliveryConfirmation. It must be quick, for the client does nothing else meanwhile.
	OnConfirmed func(id string, sequence int64)
	// Logger hears of connections; the zero value is silent.
	Logger logr.Logger
}

// Client submits jobs to a producer elsewhere. What has no answer when a connection breaks is submitted again over the next one, under the
// same ID.
type Client struct {
	submitter
	endpoint *endpoint.Client
}

// Dial returns a client of a flow's producer, which connects with Run and goes on trying until that ends: an address where nobody listens is
// no error. A flow in Kubernetes is FlowInNamespace.
func Dial(flow Flow, options ClientOptions) (*Client, error) {
	if flow.Address == "" {
		return nil, errors.New("workpulling: a client needs the address of a producer")
	}
	identity, err := options.Identity.orPod(runtimeconfig.Place{})
	if err != nil {
		return nil, err
	}
	peer, err := identity.peer(flow)
	if err != nil {
		return nil, err
	}
	if options.MaxPending <= 0 {
		options.MaxPending = 1024
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	c := &Client{endpoint: endpoint.NewClient(endpoint.ClientOptions{
		Dial:       endpoint.DialProducerPeer(func() transport.Peer { return peer }),
		Log:        options.Logger.WithValues("flow", flow.Name),
		CreditWait: options.CreditWait, StopGrace: options.StopGrace,
		OnConfirmed: confirmations(options.OnConfirmed),
	})}
	c.submitter = submitter{to: c.endpoint, slots: semaphore.NewWeighted(int64(options.MaxPending)), manual: options.ManualAcknowledge}
	return c, nil
}

func confirmations(tell func(string, int64)) func(protocol.DeliveryConfirmed) {
	if tell == nil {
		return nil
	}
	return func(c protocol.DeliveryConfirmed) { tell(c.MessageID, c.StoreSeq) }
}

// Run connects and works until ctx ends. Then it takes no more jobs, waits up to StopGrace for answers that are under way, and answers
// ErrUnavailable to the rest. It returns nil.
func (c *Client) Run(ctx context.Context) error { return c.endpoint.Run(ctx) }
