package producer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// Lease is the flow's Lease; *fencing.Lease is one.
type Lease interface {
	Read(ctx context.Context) (fencing.LeaseRecord, error)
	Hold(ctx context.Context, holder string, duration time.Duration, seen fencing.LeaseRecord) (fencing.LeaseRecord, error)
	Release(ctx context.Context, seen fencing.LeaseRecord) (fencing.LeaseRecord, error)
	Halt(ctx context.Context, word string, seen fencing.LeaseRecord) (fencing.LeaseRecord, error)
}

// member is this process among the producers of its flow: it stands by, or it has the seat and with it the queue. Alone with a queue
// that nobody else can open it has the seat for life.
type member struct {
	log  logr.Logger
	self fencing.Member
	// queue is what the seat is about; shared says that others can open it too.
	queue  *volume
	shared bool
	lease  Lease // nil where the API server is not reached
	// ask looks what the process at an address is doing.
	ask func(ctx context.Context, address string) fencing.Answer
	// take makes a producer that records owner. halted is what the Lease says of a failure for good. It returns the nonce, too, under which it
	// looked whether the flow has failed.
	take func(owner, halted string, failed func(delivery.Failed)) (*endpoint.Producer, int64)
	// halt is what the Lease is to say of a failure; ok is false where the failure is none of the flow.
	halt func(delivery.Failed) (record haltRecord, ok bool)
	// nonce is spec.recoverNonce as far as it is known here.
	nonce func() int64
	// configure puts the newest configuration in force.
	configure func(*endpoint.Producer)
	// verification tells how tokens are verified; nil where the API server has no part in it.
	verification func() fencing.Verification
	// times are the silence after which an owner is given up, and the pace of looking.
	times func() (silence, beat time.Duration)

	began     time.Time
	candidate *fencing.Candidate // belongs to run
	turn      int64
	gone      chan string // UIDs of deleted pods

	seat   atomic.Pointer[seat]
	view   atomic.Pointer[view]
	fenced atomic.Uint64
	turns  fencedTurns // that ended so
	// refused are the callers that were turned away while standing by.
	refused transport.Refusals
}

// seat is one turn of having the queue.
type seat struct {
	producer *endpoint.Producer
	self     fencing.Member
	// fencedOut says that another member has the queue now; this turn is over.
	fencedOut atomic.Bool
	// troubledSince is when the queue stopped working, in nanoseconds since the process began; 0 while it works.
	troubledSince atomic.Int64
	// epoch is that of the load, 0 before it; fencedBy is what was refused because another member has the queue.
	epoch    atomic.Uint64
	fencedBy atomic.Pointer[delivery.Failed]
	// halt is how this turn failed for good.
	halt atomic.Pointer[haltRecord]
	// loadTook is how long the load took, once it is over.
	loadTook time.Duration
}

// view is what a standby knows.
type view struct {
	// owner is who has the queue; it is this process's idea and no authority.
	owner fencing.Member
	epoch queue.Epoch
	// alive says that the owner answered when it was last asked.
	alive bool
	// unasked says that nothing is known yet, and so nothing is to be told.
	unasked bool
	// trouble is why the queue cannot be read; troubledSince is when that began.
	trouble       string
	cause         error
	troubledSince time.Time
}

// errUnasked says that this member stands by and does not know yet how the queue is.
var errUnasked = errors.New("this producer has not asked the queue yet")

// errStandby says that there are no figures: this member does not have the queue.
var errStandby = errors.New("this producer stands by")

func (m *member) init(config fencing.CandidateConfig) {
	m.began = time.Now() //nolint:forbidigo // the origin of a monotonic clock
	m.gone = make(chan string, 64)
	m.candidate = fencing.NewCandidate(config)
	m.view.Store(&view{unasked: true, trouble: "the queue has not been asked yet"})
}

func (m *member) now() fencing.Now { return time.Since(m.began) } //nolint:forbidigo // a monotonic clock

// run takes turns until ctx ends, and gives the seat up then.
func (m *member) run(ctx context.Context) error {
	if !m.shared {
		m.lead(ctx)
		return nil
	}
	for ctx.Err() == nil {
		if m.stand(ctx) {
			m.lead(ctx)
		}
	}
	return nil
}

// follow keeps the view fresh after run has ended, so that requests still find their way, until ctx ends.
func (m *member) follow(ctx context.Context) {
	for m.pause(ctx, time.Duration(0)) {
		m.round(ctx)
	}
}

// stand stands by until it is time to try for the queue; false means that ctx ended.
func (m *member) stand(ctx context.Context) bool {
	told := ""
	for {
		m.round(ctx)
		if m.candidate.WantsLease(m.now()) {
			m.readLease(ctx)
		}
		decision := m.candidate.Decide(m.now())
		if ctx.Err() != nil {
			return false
		}
		if decision.Act == fencing.Acquire && m.acquire(ctx) {
			decision = m.candidate.Decide(m.now())
		}
		if decision.Act == fencing.Load {
			m.log.Info("Taking the queue", "cause", decision.Why)
			return true
		}
		if decision.Why != told {
			told = decision.Why
			m.log.V(1).Info("Standing by", "cause", told)
		}
		wait := time.Duration(0)
		if m.candidate.Soon() {
			wait = soon
		}
		if !m.pause(ctx, wait) {
			return false
		}
	}
}

// soon is when a refused connection is tried again.
const soon = 200 * time.Millisecond

// acquire gets the Lease, and looks whether the queue has not changed its owner meanwhile.
func (m *member) acquire(ctx context.Context) bool {
	silence, _ := m.times()
	seen, ok := m.candidate.Lease()
	if !ok {
		return false
	}
	record, err := m.lease.Hold(ctx, m.self.Holder(), silence, seen)
	if err != nil {
		m.log.V(1).Info("Another member is faster, or the API server does not answer", "cause", err.Error())
		return false
	}
	m.candidate.LeaseRead(m.now(), record, nil)
	m.readOwner(ctx)
	return true
}

// pause waits for a beat, or for wait where that is set; false means that ctx ended.
func (m *member) pause(ctx context.Context, wait time.Duration) bool {
	if wait == 0 {
		_, wait = m.times()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// round looks at everything that tells who has the queue.
func (m *member) round(ctx context.Context) {
	silence, beat := m.times()
	m.candidate.Reconfigure(silence, beat)
	m.buryDead()
	known, _, _, ok := m.candidate.Owner()
	limited, cancel := context.WithTimeout(ctx, max(beat, time.Second))
	defer cancel()
	var looks sync.WaitGroup
	var answer fencing.Answer
	ask := ok && known.Streams != "" && m.seat.Load() == nil
	if ask {
		looks.Go(func() { answer = m.ask(limited, known.Streams) })
	}
	m.readOwner(ctx)
	looks.Wait()
	if ctx.Err() != nil {
		return // what was broken off says nothing
	}
	if ask {
		m.candidate.Asked(m.now(), known, answer)
	}
	m.show()
}

// readLease asks the API server, which is done only where the answer matters.
func (m *member) readLease(ctx context.Context) {
	if m.lease == nil {
		m.candidate.LeaseRead(m.now(), fencing.LeaseRecord{}, errNoLease)
		return
	}
	record, err := m.lease.Read(ctx)
	if ctx.Err() == nil {
		m.candidate.LeaseRead(m.now(), record, err)
	}
}

var errNoLease = errors.New("this process has no way to the API server")

// ownerPatience bounds the question who has the queue: an answer that takes longer is none to act on. No other question of a look is
// waited for so long.
const ownerPatience = 3 * time.Second

func (m *member) readOwner(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	owner, err := m.queue.Owner(limited)
	if ctx.Err() != nil {
		return
	}
	m.candidate.OwnerRead(m.now(), owner, err)
	last := *m.view.Load()
	if s := m.seat.Load(); s != nil && err == nil && last.cause != nil {
		s.producer.QueueAnswers()
	}
	last.unasked = false
	if err == nil {
		last.trouble, last.cause, last.troubledSince = "", nil, time.Time{}
	} else {
		if last.troubledSince.IsZero() {
			last.troubledSince = time.Now() //nolint:forbidigo // for a report
		}
		last.trouble, last.cause = err.Error(), err
	}
	m.view.Store(&last)
}

// show makes what the candidate knows visible to other goroutines.
func (m *member) show() {
	next := *m.view.Load()
	owner, epoch, alive, ok := m.candidate.Owner()
	next.epoch = epoch
	next.owner, next.alive = fencing.Member{}, false
	if ok {
		next.owner, next.alive = owner, alive
	}
	m.view.Store(&next)
}

// buryDead takes in which pods were deleted.
func (m *member) buryDead() {
	for {
		select {
		case uid := <-m.gone:
			m.candidate.PodGone(uid)
		default:
			return
		}
	}
}

// podGone reports positive evidence that a pod is over.
func (m *member) podGone(uid string) {
	if s := m.seat.Load(); s != nil {
		s.producer.WorkerGone(uid, "the pod was deleted")
	}
	if !m.shared {
		return
	}
	select {
	case m.gone <- uid:
	default: // silence tells the same, later
	}
}

// incarnationOver reports positive evidence that a process of a worker's pod is over.
func (m *member) incarnationOver(podUID, bootNonce, reason string) {
	if s := m.seat.Load(); s != nil {
		s.producer.IncarnationOver(podUID, bootNonce, reason)
	}
}

// noteRefusal counts a refusal at the intake. One that stands by refuses callers without a token, and has no figures but the log.
func (m *member) noteRefusal(refusal *transport.Refusal) {
	if p := m.producer(); p != nil {
		p.NoteRefusal(refusal)
		return
	}
	m.refused.Note(m.log, refusal, time.Now()) //nolint:forbidigo // the pace of a log
}

// producer is the one that has the seat, nil while standing by.
func (m *member) producer() *endpoint.Producer {
	if s := m.seat.Load(); s != nil && !s.fencedOut.Load() {
		return s.producer
	}
	return nil
}

// route says where jobs are taken.
func (m *member) route() intake.Route {
	if m.producer() != nil {
		return intake.Route{Here: true}
	}
	if v := m.view.Load(); v.alive {
		return intake.Route{Address: v.owner.Intake}
	}
	return intake.Route{}
}

// stats are the figures of the seat.
func (m *member) stats(ctx context.Context) (endpoint.ProducerStats, error) {
	p := m.producer()
	if p == nil {
		return endpoint.ProducerStats{}, errStandby
	}
	stats, err := p.Stats(ctx)
	if err == nil && m.shared && stats.Failure != nil && errors.Is(stats.Failure.Cause, queue.ErrFenced) {
		return endpoint.ProducerStats{}, errStandby // it is about to give the seat up
	}
	return stats, err
}
