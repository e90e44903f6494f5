package ours

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// produceStreams is how many streams an app submits over: a stream has credit for 64 jobs.
const produceStreams = 8

// streamSubmitter hands jobs to a producer sidecar over its producer streams.
type streamSubmitter struct {
	conn    *grpc.ClientConn
	cancel  context.CancelFunc
	streams []*produceStream
	next    atomic.Uint64
	reading sync.WaitGroup
}

func openProduceStreams(stage *trial.Stage) (trial.Submitter, error) {
	conn, err := dialSocket(producerSocket(stage))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &streamSubmitter{conn: conn, cancel: cancel}
	for range produceStreams {
		stream, err := pb.NewWorkPullingClient(conn).Produce(ctx)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		p := &produceStream{stream: stream, open: map[uint64]chan<- error{}}
		p.granted = sync.NewCond(&p.mu)
		s.reading.Go(p.read)
		s.streams = append(s.streams, p)
	}
	return s, nil
}

// Pace implements trial.Submitter.
func (*streamSubmitter) Pace() trial.Pace { return trial.Pace{Callers: 2 * produceStreams, Batch: 32} }

// Close implements trial.Submitter.
func (s *streamSubmitter) Close() error {
	s.cancel()
	err := s.conn.Close()
	s.reading.Wait()
	return err
}

// Submit implements trial.Submitter.
func (s *streamSubmitter) Submit(ctx context.Context, jobs []trial.Job) error {
	stream := s.streams[s.next.Add(1)%uint64(len(s.streams))]
	answers := make(chan error, len(jobs))
	for left := jobs; len(left) > 0; {
		n, err := stream.send(left, answers)
		if err != nil {
			return err
		}
		left = left[n:]
	}
	for range jobs {
		select {
		case err := <-answers:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// produceStream is one producer endpoint.
type produceStream struct {
	stream  pb.WorkPulling_ProduceClient
	mu      sync.Mutex // guards sending too
	granted *sync.Cond
	session string
	batches bool // the producer takes them
	used    uint64
	upTo    uint64
	open    map[uint64]chan<- error
	ended   error
}

// send waits for credit, submits as many of the jobs as there is credit for, in one frame, and says how many.
func (p *produceStream) send(jobs []trial.Job, answers chan<- error) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.used >= p.upTo && p.ended == nil {
		p.granted.Wait()
	}
	if p.ended != nil {
		return 0, p.ended
	}
	var submissions []protocol.FromProducer
	for n < len(jobs) && p.used < p.upTo {
		p.used++
		p.open[p.used] = answers
		job := protocol.Job{MessageID: jobs[n].ID(), Payload: jobs[n].Payload}
		submissions = append(submissions, protocol.Produced{Session: p.session, Token: p.used, Job: job})
		n++
	}
	return n, p.write(submissions...)
}

// write is called with mu locked.
func (p *produceStream) write(messages ...protocol.FromProducer) error {
	for _, frame := range wire.EncodeFromProducer(p.batches, messages...) {
		if err := p.stream.Send(frame); err != nil {
			return err
		}
	}
	return nil
}

func (p *produceStream) read() {
	for {
		frame, err := p.stream.Recv()
		var messages []protocol.ToProducer
		if err == nil {
			messages, err = wire.DecodeToProducer(frame)
		}
		if err == nil {
			err = p.take(messages, wire.TakesBatches(frame))
		}
		if err != nil {
			p.end(err)
			return
		}
	}
}

// take takes the messages of one frame, and acknowledges in one what is stored.
func (p *produceStream) take(messages []protocol.ToProducer, batches bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batches = p.batches || batches
	var acks []protocol.FromProducer
	for _, message := range messages {
		switch m := message.(type) {
		case protocol.RequestNext:
			p.session, p.upTo = m.Session, max(p.upTo, m.UpTo)
			p.granted.Broadcast()
		case protocol.Stored:
			p.answer(m.Token, nil)
			acks = append(acks, protocol.StoredAck{Session: m.Session, Token: m.Token, MessageID: m.MessageID})
		case protocol.Refused:
			p.answer(m.Token, fmt.Errorf("refused: %s: %s", m.Code, m.Reason))
		}
	}
	return p.write(acks...)
}

func (p *produceStream) answer(token uint64, err error) {
	if answers, ok := p.open[token]; ok { // the first of repeated answers
		delete(p.open, token)
		answers <- err
	}
}

func (p *produceStream) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = err
	for token := range p.open {
		p.answer(token, err)
	}
	p.granted.Broadcast()
}
