package endpoint

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
)

// ProducerStream is a producer endpoint's stream to a Producer elsewhere, such as *transport.ProducerStream. Recv and Send are used by one
// goroutine each; Close unblocks both.
type ProducerStream interface {
	// Send writes messages in order, and keeps none.
	Send(...protocol.FromProducer) error
	// Recv returns the messages of one frame, in order.
	Recv() ([]protocol.ToProducer, error)
	// CloseSend says that nothing more comes; Recv fails once the other side has read what came before.
	CloseSend() error
	Close()
}

// ClientOptions configure a Client. Dial is required; the other zero values mean the defaults stated.
type ClientOptions struct {
	// Dial opens one stream; ctx bounds its life. It has to fail within seconds where nobody answers.
	Dial func(ctx context.Context) (ProducerStream, error)
	Log  logr.Logger
	// CreditWait is how long a submission waits for a stream and for credit before it is refused (30 s).
	CreditWait time.Duration
	// AnswerWait is how long a submission waits beyond that for its answer before it is ErrUnavailable, whatever becomes of streams (1 min).
	AnswerWait time.Duration
	// StopGrace is how long Run goes on after its context ended, at most, for answers that are under way (5 s).
	StopGrace time.Duration
	// OnConfirmed, where it is set, is told that a job of the flow is confirmed, whoever submitted it: best effort, and only where the flow
	// has deliveryConfirmation. It is called between two events of the client and must be quick.
	OnConfirmed func(protocol.DeliveryConfirmed)
	// ReconnectMin and ReconnectMax bound the jittered wait between attempts to connect (100 ms, 1 s).
	ReconnectMin, ReconnectMax time.Duration
	Random                     delivery.Random
	Clock                      clock.Clock
}

// Client is a producer endpoint at the other end of a stream. What has no answer when a stream breaks is submitted again over the next one,
// under the same MessageID, so that it is stored once.
type Client struct {
	options ClientOptions
	loop    *loop
	inbox   mailbox[*submission]
	take    func() // takeSubmissions

	// Owned by the loop.
	desk     *desk
	out      *transport.Outbox[protocol.FromProducer] // nil while no stream is open
	stopping bool
	stopBy   time.Time
}

// NewClient returns a client that connects with Run.
func NewClient(options ClientOptions) *Client {
	setDefault(&options.CreditWait, 30*time.Second)
	setDefault(&options.AnswerWait, time.Minute)
	setDefault(&options.StopGrace, 5*time.Second)
	setDefault(&options.ReconnectMin, 100*time.Millisecond)
	setDefault(&options.ReconnectMax, time.Second)
	if options.Random == nil {
		options.Random = CryptoRandom{}
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	c := &Client{options: options, loop: newLoop(options.Clock)}
	c.desk, c.take = newDesk(clientDesk{c}), c.takeSubmissions
	return c
}

// DialProducerPeer makes a Dial of a peer; peer is asked for every attempt, so that a changed address is followed.
func DialProducerPeer(peer func() transport.Peer) func(context.Context) (ProducerStream, error) {
	return func(ctx context.Context) (ProducerStream, error) {
		stream, err := peer().DialProducer(ctx)
		if err != nil {
			return nil, err
		}
		return stream, nil
	}
}

// Post is Producer.Post over the stream.
func (c *Client) Post(entry Submission) {
	if s := entry.valid(); s != nil {
		c.hand([]*submission{s}, c.loop.post)
	}
}

// Push is Producer.Push over the stream.
func (c *Client) Push(entry Submission) {
	if s := entry.valid(); s != nil {
		c.hand([]*submission{s}, c.loop.do)
	}
}

// PushAll is Producer.PushAll over the stream.
func (c *Client) PushAll(entries []Submission) { c.hand(allValid(entries), c.loop.do) }

func (c *Client) hand(pending []*submission, to func(func()) bool) {
	first, open := c.inbox.put(pending...)
	if !open {
		refuse(pending, ErrUnavailable)
		return
	}
	if first && len(pending) > 0 {
		to(c.take)
	}
}

func (c *Client) takeSubmissions() { c.desk.submit(c.inbox.take()) }

// Run connects and works until ctx ends. Then it takes nothing more, waits up to StopGrace for answers that are under way, and answers
// ErrUnavailable to the rest. It returns nil.
func (c *Client) Run(ctx context.Context) error {
	lifetime, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	connected := make(chan struct{})
	go func() {
		defer close(connected)
		c.connect(lifetime)
	}()
	c.loop.run(ctx, c, c.stopped)
	select { // the last acknowledgements are on their way
	case <-connected:
	case <-c.options.Clock.After(closingTime):
	}
	stop()
	<-connected
	refuse(c.inbox.close(), ErrUnavailable)
	c.desk.refuseAll(ErrUnavailable)
	return nil
}

func (c *Client) stopped() bool {
	now := c.options.Clock.Now()
	if !c.stopping {
		c.stopping = true
		c.stopBy = now.Add(c.options.StopGrace)
		c.desk.refuseWaiting(ErrUnavailable)
	}
	if !c.desk.idle() && now.Before(c.stopBy) {
		return false
	}
	if c.out != nil {
		c.out.Close()
	}
	return true
}

func (c *Client) deadline() (delivery.Now, bool) { return c.desk.impatient() }
func (c *Client) tick()                          { c.desk.expire() }
func (c *Client) rest()                          {}
func (c *Client) paused(time.Duration)           {}

// heartbeat paces the looks of the loop; nothing of the client depends on a pause.
func (c *Client) heartbeat() time.Duration { return clientBeat }

// closingTime is how long a producer may take to read what a client has sent last.
const closingTime = 2 * time.Second

// clientBeat bounds how late the end of StopGrace is noticed.
const clientBeat = 200 * time.Millisecond

// connect keeps one stream open until ctx ends.
func (c *Client) connect(ctx context.Context) {
	wait := c.options.ReconnectMin
	var failures pace
	for {
		granted, err := c.visit(ctx)
		select {
		case <-c.loop.done:
			return
		default:
		}
		if granted {
			wait, failures = c.options.ReconnectMin, pace{}
		}
		if failures.due(c.options.Clock.Now()) {
			c.options.Log.Info("no stream to the producer, trying again", "cause", err.Error())
		}
		select {
		case <-c.loop.done:
			return
		case <-c.options.Clock.After(time.Duration(float64(wait) * (0.75 + c.options.Random.Float64()/2))):
		}
		wait = min(wait*2, c.options.ReconnectMax)
	}
}

// visit opens one stream and serves it until it ends, which is always an error. granted says that it has given credit.
func (c *Client) visit(ctx context.Context) (granted bool, err error) {
	stream, err := c.options.Dial(ctx)
	if err != nil {
		return false, err
	}
	out := transport.NewOutbox[protocol.FromProducer]()
	sent := make(chan error, 1)
	go func() {
		err := out.Run(ctx, stream.Send)
		if err == nil {
			err = stream.CloseSend()
		}
		if err != nil {
			stream.Close()
		}
		sent <- err
	}()
	if !c.loop.post(func() { c.out = out }) {
		out.Close()
	}
	granted, err = c.receive(stream)
	out.Abort(context.Canceled)
	stream.Close()
	if sendErr := <-sent; errors.Is(err, context.Canceled) && sendErr != nil {
		err = sendErr
	}
	c.loop.post(func() {
		c.out = nil
		c.desk.renew("") // its credit ended with the stream
		if c.stopping {
			c.desk.refuseWaiting(ErrUnavailable)
		}
	})
	return granted, err
}

// receive hands the stream's messages to the loop until it ends.
func (c *Client) receive(stream ProducerStream) (granted bool, err error) {
	for {
		messages, err := stream.Recv()
		switch {
		case errors.Is(err, protocol.ErrInvalid):
			continue // a frame that nobody can read; what it answered is repeated
		case errors.Is(err, io.EOF):
			return granted, errors.New("the producer ended the stream")
		case err != nil:
			return granted, err
		}
		for _, message := range messages {
			_, grant := message.(protocol.RequestNext)
			granted = granted || grant
		}
		c.loop.do(func() {
			for _, message := range messages {
				c.received(message)
			}
		})
	}
}

func (c *Client) received(message protocol.ToProducer) {
	if confirmed, ok := message.(protocol.DeliveryConfirmed); ok {
		if c.options.OnConfirmed != nil {
			c.options.OnConfirmed(confirmed)
		}
		return
	}
	c.desk.receive(message)
}

// clientDesk is a Client as the host of its desk.
type clientDesk struct{ *Client }

func (h clientDesk) produce(message protocol.Produced, _ queue.Digest) { h.say(message) }
func (h clientDesk) acknowledge(message protocol.StoredAck)            { h.say(message) }

func (h clientDesk) say(message protocol.FromProducer) {
	if h.out != nil {
		h.out.Offer(message)
	}
}

func (h clientDesk) refusing() error {
	if h.stopping {
		return ErrUnavailable
	}
	return nil
}

func (h clientDesk) whyWaiting() error {
	if h.out == nil {
		return ErrUnavailable
	}
	return &NoCreditError{RetryAfter: time.Second}
}

func (h clientDesk) creditWait() delivery.Now { return h.options.CreditWait }
func (h clientDesk) answerWait() delivery.Now { return h.options.AnswerWait }
func (h clientDesk) now() delivery.Now        { return h.loop.last }
func (h clientDesk) post(f func()) bool       { return h.loop.post(f) }
