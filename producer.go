package workpulling

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/sharedsecret"
	"github.com/workpulling/workpulling/runtime/transport"
)

// ProducerOptions configure a Producer. Queue is required; the other zero values mean the defaults stated.
type ProducerOptions struct {
	// Flow names the jobs' stream and its data in the queue ("jobs").
	Flow string
	// Queue keeps the jobs: Memory(), Local(dir) or PostgreSQL(dsn).
	Queue Queue
	// OpenTimeout bounds the opening of the queue (30 s).
	OpenTimeout time.Duration

	// Listen is host:port where workers and clients of other processes connect; without it the producer serves its own process alone. Port 0
	// picks a free one, see Address.
	Listen string
	// SharedSecret is a directory of its own for the identity of this run, made where it is absent. Listen needs it, or the two fields after it.
	SharedSecret string
	// TLS and Authenticator replace SharedSecret: the server's certificate, and who may connect.
	TLS           *tls.Config
	Authenticator transport.Authenticator

	// MaxPending is how many asynchronous submissions may be without an answer (4,096).
	MaxPending int
	// CreditWait is how long a submission waits for room in the backlog before it is refused with a BackPressureError, or for the queue to be
	// loaded before that is ErrUnavailable (5 s).
	CreditWait time.Duration
	// ManualAcknowledge makes every Receipt wait for Acknowledge. Until then the queue keeps the ID of the job, however long ago it was
	// confirmed: what a producer with an outbox needs, which marks a job as sent before it acknowledges. An unacknowledged receipt takes
	// one of MaxPending places.
	ManualAcknowledge bool

	// BacklogJobs is how many jobs may wait while no worker has room for them (1,000,000), BacklogBytes their payloads (1 GiB).
	BacklogJobs  int
	BacklogBytes int64
	// MaxPayloadBytes refuses larger payloads (1 MiB; at most 8 MiB).
	MaxPayloadBytes int
	// DeduplicationWindow is how long the ID of a settled job is remembered at least (10 min). With Memory each takes its own length
	// and about 70 bytes of it: a flow of 10,000 jobs a second with IDs of 32 bytes holds some 600 MB by default.
	DeduplicationWindow time.Duration
	// MaxAttempts is how many attempts a job has before it is a dead letter (20; below zero without end).
	MaxAttempts int
	// BackoffInitial and BackoffMax bound the growing wait after a failed attempt (1 s, 5 min).
	BackoffInitial, BackoffMax time.Duration
	// Heartbeat is how often workers and producer tell each other that they live, Deadline the silence after which a worker is lost and its
	// jobs go to others (2 s, 10 s).
	Heartbeat, Deadline time.Duration
	// StopGrace is how long Run goes on, at most, when its context has ended, to let running handlers confirm (5 s).
	StopGrace time.Duration

	// Logger hears of failures; the zero value is silent.
	Logger logr.Logger
}

// Producer stores jobs and gives them to workers. Its submissions are those of Client.
type Producer struct {
	submitter
	options  ProducerOptions
	queue    queue.WorkQueue
	endpoint *endpoint.Producer
	listener net.Listener // nil without Listen
	server   *grpc.Server
	failed   chan delivery.Failed
}

// NewProducer opens the queue and the listener. Run does the rest, and closes both; call it also where ctx has ended by then.
func NewProducer(options ProducerOptions) (*Producer, error) {
	options.setDefaults()
	if options.Queue == nil {
		return nil, errors.New("workpulling: a producer needs a queue")
	}
	if err := options.makeIdentity(); err != nil {
		return nil, err
	}
	p := &Producer{options: options, failed: make(chan delivery.Failed, 1)}
	ctx, cancel := context.WithTimeout(context.Background(), options.OpenTimeout)
	defer cancel()
	opened, err := options.Queue(ctx, options.Flow, options.DeduplicationWindow)
	if err != nil {
		return nil, fmt.Errorf("opening the queue of flow %q: %w", options.Flow, err)
	}
	p.queue = opened
	if err := p.listen(); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	p.endpoint = endpoint.NewProducer(endpoint.ProducerOptions{
		Config: options.config(), Queue: opened, Owner: p.Address(), Log: options.Logger,
		Intake:  delivery.SetIntake{Open: true, Dispatch: true},
		Credits: options.MaxPending, CreditWait: options.CreditWait, StopGrace: options.StopGrace,
		OnFailed:      func(f delivery.Failed) { p.failed <- f },
		Authenticator: options.Authenticator,
	})
	p.submitter = submitter{to: p.endpoint, slots: semaphore.NewWeighted(int64(options.MaxPending)), manual: options.ManualAcknowledge}
	return p, nil
}

func (o *ProducerOptions) setDefaults() {
	if o.Flow == "" {
		o.Flow = "jobs"
	}
	if o.OpenTimeout <= 0 {
		o.OpenTimeout = 30 * time.Second
	}
	if o.MaxPending <= 0 {
		o.MaxPending = endpoint.DefaultCredits
	}
	if o.CreditWait <= 0 {
		o.CreditWait = 5 * time.Second
	}
	if o.DeduplicationWindow <= 0 {
		o.DeduplicationWindow = 10 * time.Minute
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
}

func (o ProducerOptions) config() delivery.ControllerConfig {
	config := delivery.DefaultControllerConfig()
	config.DeliveryConfirmation = true
	if o.BacklogJobs > 0 {
		config.BacklogJobs = o.BacklogJobs
	}
	if o.BacklogBytes > 0 {
		config.BacklogBytes = o.BacklogBytes
	}
	if o.MaxPayloadBytes > 0 {
		config.MaxPayloadBytes = o.MaxPayloadBytes
	}
	if o.MaxAttempts != 0 {
		config.MaxAttempts = max(o.MaxAttempts, 0)
	}
	for _, d := range []struct {
		into  *time.Duration
		value time.Duration
	}{
		{&config.BackoffInitial, o.BackoffInitial}, {&config.BackoffMax, o.BackoffMax},
		{&config.Heartbeat, o.Heartbeat}, {&config.Deadline, o.Deadline},
	} {
		if d.value > 0 {
			*d.into = d.value
		}
	}
	return config
}

// makeIdentity sees to it that nothing listens without one.
func (o *ProducerOptions) makeIdentity() error {
	if o.Listen == "" || o.TLS != nil && o.Authenticator != nil {
		return nil
	}
	if o.SharedSecret == "" {
		return ErrNoIdentity
	}
	dir, err := sharedsecret.Make(o.SharedSecret, time.Now()) //nolint:forbidigo // dates a certificate
	if err != nil {
		return err
	}
	if o.TLS, err = dir.ServerTLS(); err != nil {
		return err
	}
	o.Authenticator, err = dir.Authenticator()
	return err
}

func (p *Producer) listen() error {
	if p.options.Listen == "" {
		return nil
	}
	listener, err := net.Listen("tcp", p.options.Listen)
	if err != nil {
		return fmt.Errorf("listening for workers: %w", err)
	}
	p.listener, p.server = listener, transport.NewServer(p.options.TLS)
	return nil
}

// Address is where the producer listens, "" where it does not.
func (p *Producer) Address() string {
	if p.listener == nil {
		return ""
	}
	return p.listener.Addr().String()
}

// closingTime is how long streams get to send what is queued.
const closingTime = 2 * time.Second

// Run works until ctx ends, and then stops in order: no new jobs, running handlers may confirm for StopGrace, what was written is durable, the
// queue is closed; it returns nil. It returns a *FailedError where the queue failed for good: another producer has taken it, or its
// data are damaged.
func (p *Producer) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served, ended := make(chan error, 1), make(chan struct{})
	if p.server != nil {
		p.endpoint.Register(p.server)
		go func() {
			defer close(ended)
			served <- p.server.Serve(p.listener)
		}()
	}
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		_ = p.endpoint.Run(ctx) // it returns nil
	}()
	var failure error
	select {
	case <-ctx.Done():
	case f := <-p.failed:
		failure = &FailedError{Stage: string(f.Stage), Cause: f.Cause}
	case err := <-served:
		failure = fmt.Errorf("serving workers: %w", err)
	}
	stop()
	<-worked
	if p.server != nil {
		timer := time.AfterFunc(closingTime, p.server.Stop)
		p.server.GracefulStop()
		timer.Stop()
		<-ended
	}
	return errors.Join(failure, p.queue.Close())
}

// WaitConfirmed returns nil when a handler has confirmed the job and that is as durable as the queue, or a *DeadLetterError. ErrUnknown: it was
// settled so long ago that it is forgotten. ErrUnavailable: this producer ended first; the job is stored all the same.
func (p *Producer) WaitConfirmed(ctx context.Context, receipt Receipt) error {
	settled, err := p.endpoint.Wait(ctx, queue.JobRef{MessageID: receipt.ID, StoreSeq: receipt.Sequence})
	if err != nil {
		return translated(err)
	}
	if settled.DeadLettered {
		return &DeadLetterError{Reason: settled.Reason}
	}
	return nil
}

// ProducerStats is what a producer has on its hands.
type ProducerStats struct {
	// Backlog counts stored jobs that no worker holds, those in a back-off included; InFlight those that a worker holds.
	Backlog, InFlight int
	// DeadLetters wait for a person.
	DeadLetters int64
	// Workers are taken in and alive.
	Workers int
	// Accepted, Confirmed and Redelivered count jobs since the start.
	Accepted, Confirmed, Redelivered uint64
	// QueueError is why the queue does not work now, for people; "" while it does.
	QueueError string
}

// Stats returns a snapshot; ErrUnavailable after Run has ended.
func (p *Producer) Stats(ctx context.Context) (ProducerStats, error) {
	s, err := p.endpoint.Stats(ctx)
	if err != nil {
		return ProducerStats{}, translated(err)
	}
	return ProducerStats{
		Backlog: s.BacklogJobs + s.DelayedJobs, InFlight: s.InFlight, DeadLetters: s.DeadLetters, Workers: len(s.Bindings),
		Accepted: s.Accepted, Confirmed: s.Confirmed, Redelivered: s.Redelivered, QueueError: s.QueueMessage,
	}, nil
}
