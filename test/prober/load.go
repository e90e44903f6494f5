package prober

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// States of a job that settle it, as the intake names them.
const (
	StateConfirmed    = "confirmed"
	StateDeadLettered = "dead-lettered"
	StateVanished     = "vanished"
)

// Bounds of the load.
const (
	submitters = 24
	observers  = 24
	// Connections is how many a Load uses at most.
	Connections = submitters + observers
	// lookFirst and lookLast are the times between two looks at a job, which double.
	lookFirst, lookLast = time.Second, 8 * time.Second
	// resubmitPercent of the accepted jobs are submitted once more a little later.
	resubmitPercent = 3
)

// Load submits jobs, each again and again under the same id until it is answered, and asks after every accepted one until it is settled.
type Load struct {
	// Jobs is the URL of the flow's jobs.
	Jobs   string
	Client *http.Client
	Token  func() string
	Seed   uint64
	// Rate is jobs a second at most, Outstanding how many may be accepted and not settled.
	Rate        float64
	Outstanding int64
	// StandsBy says whether a producer at an address stands by, so that what it accepts was forwarded. It may be nil.
	StandsBy func(host string) bool
	// Journal is where the books are kept too, if it is not nil.
	Journal *Journal

	next                         atomic.Int64
	accepted, settled, submitted atomic.Int64
	// Repeats counts submissions after the first, Again the resubmissions of jobs that were accepted already, Forwarded what was accepted
	// through a producer that stood by.
	Repeats, Again, Forwarded atomic.Int64

	mu      sync.Mutex
	records map[string]Record
	wrong   []string
	maxSeq  int64
	queue   chan look
}

// look is a job that is due for a look.
type look struct {
	job  Job
	at   time.Time
	wait time.Duration
}

// answer is what the intake says of a job.
type answer struct {
	ID       string `json:"id"`
	Sequence int64  `json:"sequence"`
	State    string `json:"state"`
	New      bool   `json:"new"`
}

// Begin makes the books. It comes before everything else.
func (l *Load) Begin() {
	l.records = map[string]Record{}
	l.queue = make(chan look, 2*l.Outstanding+submitters)
}

// Run submits until submitting ends, then waits until every accepted job is settled or ctx ends.
func (l *Load) Run(ctx, submitting context.Context) error {
	pace := l.pace(submitting)
	var senders, watchers sync.WaitGroup
	for range submitters {
		senders.Go(func() {
			for range pace {
				l.one(ctx)
			}
		})
	}
	observing, done := context.WithCancel(ctx)
	defer done()
	for range observers {
		watchers.Go(func() { l.observe(observing) })
	}
	senders.Wait()
	err := l.settle(ctx)
	done()
	watchers.Wait()
	return err
}

// pace lets Rate jobs a second through while fewer than Outstanding are on their way.
func (l *Load) pace(submitting context.Context) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		defer close(out)
		start := time.Now()
		for sent := 0; submitting.Err() == nil; {
			if float64(sent) > time.Since(start).Seconds()*l.Rate || l.accepted.Load()-l.settled.Load() >= l.Outstanding {
				Pause(submitting, 5*time.Millisecond)
				continue
			}
			select {
			case out <- struct{}{}:
				sent++
			case <-submitting.Done():
			}
		}
	}()
	return out
}

// settle waits for the last jobs.
func (l *Load) settle(ctx context.Context) error {
	for l.settled.Load() < l.accepted.Load() {
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d accepted jobs are settled: %w", l.settled.Load(), l.accepted.Load(), ctx.Err())
		}
		Pause(ctx, 20*time.Millisecond)
	}
	return nil
}

// one submits one new job.
func (l *Load) one(ctx context.Context) {
	job := JobOf(l.Seed, int(l.next.Add(1)))
	l.submitted.Add(1)
	l.note(job, Submitted, "")
	if !l.submit(ctx, job) {
		return
	}
	l.accept(job)
}

func (l *Load) accept(job Job) {
	l.accepted.Add(1)
	l.note(job, Accepted, "")
	l.later(job, lookFirst)
}

// Claim enters a job into the books as accepted that was never sent, while the load runs. Whoever judges such books has to find it lost.
func (l *Load) Claim() {
	job := JobOf(l.Seed, -1)
	l.submitted.Add(1)
	l.note(job, Submitted, "")
	l.accept(job)
}

func (l *Load) later(job Job, wait time.Duration) { l.queue <- look{job, time.Now().Add(wait), wait} }

// note enters what happened into the books.
func (l *Load) note(job Job, event Event, state string) {
	n := Note{At: Now(), Event: event, ID: job.MessageID(), SHA256: job.SHA256(), State: state}
	l.mu.Lock()
	l.records[n.ID] = n.apply(l.records[n.ID])
	l.mu.Unlock()
	if l.Journal == nil {
		return
	}
	if err := l.Journal.Append(func(Moment) any { return n }); err != nil {
		l.complain("%v", err)
	}
}

// Progress is how far a load has come.
type Progress struct{ Submitted, Accepted, Settled int64 }

// Progress says how far the load has come.
func (l *Load) Progress() Progress {
	return Progress{l.submitted.Load(), l.accepted.Load(), l.settled.Load()}
}

// submit repeats a submission until the intake has taken the job, and returns false if ctx ends before.
func (l *Load) submit(ctx context.Context, job Job) bool {
	for tries := 0; ctx.Err() == nil; tries++ {
		if tries > 0 {
			l.Repeats.Add(1)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Jobs, bytes.NewReader(job.Payload))
		if err != nil {
			l.complain("%v", err)
			return false
		}
		request.Header.Set("Ce-Specversion", "1.0")
		request.Header.Set("Ce-Id", job.EventID)
		request.Header.Set("Ce-Source", Source)
		request.Header.Set("Ce-Type", "dev.workpulling.prober")
		from := ""
		trace := httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { from = c.Conn.RemoteAddr().String() }}
		status, a, err := l.send(request.WithContext(httptrace.WithClientTrace(ctx, &trace)))
		switch {
		case err == nil && (status == http.StatusCreated || status == http.StatusOK):
			if a.ID != job.MessageID() || a.Sequence <= 0 {
				l.complain("%s was taken as %+v", job.EventID, a)
			}
			l.took(a, from)
			return true
		case err == nil && status != http.StatusTooManyRequests && status < 500:
			l.complain("%s was refused with %d", job.EventID, status)
			return false
		}
		Pause(ctx, 50*time.Millisecond+rand.N(200*time.Millisecond))
	}
	return false
}

// took notes an accepted job and the address of who accepted it.
func (l *Load) took(a answer, from string) {
	if host, _, err := net.SplitHostPort(from); err == nil && l.StandsBy != nil && l.StandsBy(host) {
		l.Forwarded.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.maxSeq = max(l.maxSeq, a.Sequence)
}

// observe asks after jobs until each is settled.
func (l *Load) observe(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-l.queue:
			Pause(ctx, time.Until(next.at))
			if rand.IntN(100) < resubmitPercent {
				l.Again.Add(1)
				l.submit(ctx, next.job)
			}
			l.look(ctx, next.job, min(2*next.wait, lookLast))
		}
	}
}

func (l *Load) look(ctx context.Context, job Job, wait time.Duration) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.Jobs+"/"+url.PathEscape(job.MessageID()), http.NoBody)
	if err != nil {
		l.complain("%v", err)
		return
	}
	status, a, err := l.send(request)
	state := a.State
	if err == nil && status == http.StatusNotFound {
		state = StateVanished // an accepted job is known until long after it is settled
	}
	switch state {
	case StateConfirmed, StateDeadLettered, StateVanished:
		l.note(job, Settled, state)
		l.settled.Add(1)
	default:
		l.later(job, wait)
	}
}

func (l *Load) send(request *http.Request) (status int, a answer, err error) {
	request.Header.Set("Authorization", "Bearer "+l.Token())
	response, err := l.Client.Do(request)
	if err != nil {
		return 0, a, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, a, err
	}
	if response.StatusCode == http.StatusCreated || response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, &a); err != nil {
			return 0, a, fmt.Errorf("decoding an answer of the intake: %w", err)
		}
	}
	return response.StatusCode, a, nil
}

func (l *Load) complain(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wrong) < 100 {
		l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
	}
}

// ConfirmedSince says whether a job that was submitted after a moment is known to be confirmed.
func (l *Load) ConfirmedSince(from Moment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.SubmittedAt > from && r.State == StateConfirmed {
			return true
		}
	}
	return false
}

// Books are the records of every job, the highest sequence, and what was wrong with answers.
func (l *Load) Books() (records map[string]Record, maxSeq int64, wrong error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, line := range l.wrong {
		errs = append(errs, errors.New(line))
	}
	return l.records, l.maxSeq, errors.Join(errs...)
}
