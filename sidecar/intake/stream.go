package intake

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/workpulling/workpulling/runtime/endpoint"
)

// Bounds of one stream.
const (
	// windowLines and windowBytes are how much may be read and not yet stored, one line of any length apart. windowLines is also how many
	// lines may be stored and not yet answered.
	windowLines = maxBatch
	windowBytes = 1 << 20
	// skippedBytes is how long a line may be to be skipped; a longer one ends the stream.
	skippedBytes = 64 << 20
)

// stream is one request of lines (NDJSON), each of them a structured CloudEvent that is answered by a line of its own, in the same order.
// Three stages hand the lines on: read, store, answer. Each channel between them is bounded, so that who does not take the answers
// is not read any further.
type stream struct {
	intake  *Intake
	reader  *reader // of the second stage
	wait    time.Duration
	writer  http.ResponseWriter
	control *http.ResponseController
	window  *semaphore.Weighted // in bytes
	limit   int                 // of one line, in bytes
	arrived chan arrival
	stored  chan storedLine
}

// arrival is one line that was read.
type arrival struct {
	number int // from 1
	raw    []byte
	share  int64 // of the memory, until the line is stored
	err    error // why there is no line; the stream ends behind it unless it is errLongLine
}

// storedLine is one line on its way to its answer.
type storedLine struct {
	number int
	answer answer
	// settle is until when the answer waits for the end of the job.
	settle time.Time
}

func (i *Intake) submitLines(w http.ResponseWriter, r *http.Request, wait time.Duration) error {
	if err := checkCoding(w, r); err != nil {
		return err
	}
	limit := i.options.MaxPayload()*4/3 + structuredOverhead
	s := &stream{
		intake: i, reader: newReader(r.Header), wait: wait, writer: w, control: http.NewResponseController(w),
		window: semaphore.NewWeighted(int64(max(windowBytes, limit))), limit: limit,
		arrived: make(chan arrival, windowLines), stored: make(chan storedLine, windowLines),
	}
	_ = s.control.EnableFullDuplex() // HTTP/2 is anyway
	ctx, stop := context.WithCancel(r.Context())
	reading, stopReading := context.WithTimeout(ctx, i.options.StreamTime)
	woken := make(chan struct{})
	wake := context.AfterFunc(reading, func() {
		defer close(woken)
		_ = s.control.SetReadDeadline(time.Unix(1, 0))
	})
	letSleep := sync.OnceFunc(func() { // the writer is the server's again when this has returned
		if !wake() {
			<-woken
		}
	})
	var stages sync.WaitGroup
	// Deferred, so that a panic while decoding leaves nobody behind either.
	defer func() {
		stop()
		stopReading()
		for a := range s.arrived { // nobody reads them any more
			s.release(a)
		}
		stages.Wait()
		letSleep()
	}()
	stages.Go(func() { s.read(reading, r.Body) })
	answered := make(chan struct{})
	stages.Go(func() {
		defer close(answered)
		s.answer(ctx, stop)
	})
	s.store(ctx)
	<-answered
	letSleep() // all is read, and the connection is good for another request
	return nil
}

// read is the first stage. It alone sets the read deadline: each line has its time. That of a caller who waits for confirmations before
// the next line includes them.
func (s *stream) read(ctx context.Context, body io.Reader) {
	defer close(s.arrived)
	var grown int64
	reader := newLines(body, s.limit, skippedBytes, func() error {
		grown = int64(s.limit)
		return s.acquire(ctx, grown)
	})
	for number := 1; ; number++ {
		var due time.Time
		there := reader.ready()
		if !there {
			due = s.deadline(s.control.SetReadDeadline, s.intake.options.LineTimeout+s.wait)
		}
		var raw []byte
		err := ctx.Err() // who sets the deadline after the context ended undoes what was to wake it
		if err == nil {
			grown = 0
			raw, err = reader.next()
		}
		// While nothing is read no time runs: a deadline that passes would end the stream, or make the server take the caller for gone.
		if !there {
			_ = s.control.SetReadDeadline(time.Time{})
		}
		if errors.Is(err, io.EOF) {
			return
		}
		a := arrival{number: number, raw: raw, share: grown, err: s.broken(ctx, err, due)}
		if err == nil && len(bytes.TrimSpace(raw)) == 0 {
			s.release(a)
			continue
		}
		if err == nil && grown == 0 {
			if a.err = s.acquire(ctx, int64(len(raw))); a.err == nil {
				a.share = int64(len(raw))
			}
		}
		ends := a.err != nil && !errors.Is(err, errLongLine)
		s.arrived <- a // somebody takes them to the end
		if ends {
			return
		}
	}
}

// broken says why a line could not be read.
func (s *stream) broken(ctx context.Context, err error, due time.Time) error {
	_, known := errors.AsType[problem](err)
	switch {
	case err == nil || known:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(due): //nolint:forbidigo // an I/O deadline; it ends the context as well
		return kindLate.problem()
	case ctx.Err() != nil:
		return kindStreamOver.problem()
	case errors.Is(err, errLongLine), errors.Is(err, errEndless):
		return tooLarge(int64(s.limit))
	default:
		return kindTruncated.problem()
	}
}

// acquire waits for room for n more bytes of lines, in this stream and in all requests together.
func (s *stream) acquire(ctx context.Context, n int64) error {
	if s.window.TryAcquire(n) { // most often there is room
		if s.intake.memory.TryAcquire(n) {
			return nil
		}
		s.window.Release(n)
	}
	ctx, cancel := context.WithTimeout(ctx, s.intake.options.StreamPatience)
	defer cancel()
	if s.window.Acquire(ctx, n) == nil {
		if s.intake.memory.Acquire(ctx, n) == nil {
			return nil
		}
		s.window.Release(n)
	}
	return kindNoCredit.problem().after(time.Second)
}

func (s *stream) release(a arrival) {
	if a.share > 0 {
		s.intake.memory.Release(a.share)
		s.window.Release(a.share)
	}
}

// deadline gives an operation of the connection its time, and says until when.
func (s *stream) deadline(set func(time.Time) error, within time.Duration) time.Time {
	due := time.Now().Add(within) //nolint:forbidigo // an I/O deadline
	_ = set(due)
	return due
}

// store is the second stage: what has arrived meanwhile is stored together.
func (s *stream) store(ctx context.Context) {
	defer close(s.stored)
	for first := range s.arrived {
		group := []arrival{first}
		for more := true; more && len(group) < maxBatch; {
			select {
			case next, open := <-s.arrived:
				if more = open; open {
					group = append(group, next)
				}
			default:
				more = false
			}
		}
		s.storeGroup(ctx, group)
	}
}

// storeGroup hands answers on in order, as soon as they are known. Lines that find no room are tried again, until patience ends.
func (s *stream) storeGroup(ctx context.Context, group []arrival) {
	patience, cancel := context.WithTimeout(ctx, s.intake.options.StreamPatience)
	defer cancel()
	jobs := make([]decoded, len(group))
	for n, a := range group {
		jobs[n] = decoded{err: a.err}
		if a.err == nil {
			jobs[n] = s.reader.one(a.raw)
		}
	}
	answers := s.intake.store(ctx, jobs)
	for next := 0; ; {
		for next < len(group) && (patience.Err() != nil || !busy(answers[next].err)) {
			s.release(group[next])
			s.stored <- storedLine{number: group[next].number, answer: answers[next], settle: time.Now().Add(s.wait)} //nolint:forbidigo // a deadline of its context
			next++
		}
		if next == len(group) {
			return
		}
		s.again(ctx, jobs[next:], answers[next:])
	}
}

// again submits those jobs that found no room.
func (s *stream) again(ctx context.Context, jobs []decoded, answers []answer) {
	var waiting []decoded
	var at []int
	for n := range answers {
		if busy(answers[n].err) {
			waiting, at = append(waiting, jobs[n]), append(at, n)
		}
	}
	for n, a := range s.intake.submitJobs(ctx, waiting) {
		answers[at[n]] = a
	}
}

func busy(err error) bool {
	_, is := errors.AsType[*endpoint.NoCreditError](err)
	return is
}

// answer is the last stage. Once the caller is gone it goes on acknowledging what is stored.
func (s *stream) answer(ctx context.Context, stop context.CancelFunc) {
	s.intake.announce(s.writer)
	s.writer.Header().Set("Content-Type", typeLines)
	out := bufio.NewWriterSize(s.writer, lineBuffer)
	written := make([]answer, 0, windowLines)                           // and not yet flushed
	unbounded := func() { _ = s.control.SetWriteDeadline(time.Time{}) } // the server's own is for one answer
	unbounded()
	flush := func() {
		defer unbounded()
		s.deadline(s.control.SetWriteDeadline, s.intake.options.LineTimeout)
		if err := errors.Join(out.Flush(), s.control.Flush()); err != nil && !errors.Is(err, http.ErrNotSupported) {
			stop()
		}
		acknowledge(written)
		written = written[:0]
	}
	for line := range s.stored {
		a := line.answer
		if s.wait > 0 && a.open() {
			a.acknowledge() // the submitter stays, but for how long is not ours to know
			flush()
			settle, cancel := context.WithDeadline(ctx, line.settle)
			s.intake.await(settle, &a)
			cancel()
		}
		one := lineOutcome{Line: line.number, outcome: s.intake.outcome(&a)}
		raw := append(one.appendTo(out.AvailableBuffer()), '\n')
		if len(raw) > out.Available() {
			s.deadline(s.control.SetWriteDeadline, s.intake.options.LineTimeout)
		}
		if _, err := out.Write(raw); err != nil {
			stop()
		}
		if written = append(written, a); len(s.stored) == 0 || len(written) == cap(written) {
			flush()
		}
	}
	flush()
}
