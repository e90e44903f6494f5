package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// BenchmarkController is the cost of one job from the backlog to its durable confirm, reading payloads back included.
func BenchmarkController(b *testing.B) {
	for _, backlog := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("backlog=", backlog), func(b *testing.B) {
			c := newBenchController(backlog + b.N)
			c.bind(b226Window)
			b.ReportAllocs()
			b.ResetTimer()
			c.run(b.N)
		})
	}
}

// BenchmarkControllerIntake is the cost of one job from Produced to its durable confirm.
func BenchmarkControllerIntake(b *testing.B) {
	c := newBenchController(0)
	c.bind(b226Window)
	c.step(ProducerAttached{Conn: 1, MaxCredits: 256})
	jobs := make([]protocol.Job, b.N)
	for i := range jobs {
		jobs[i] = protocol.Job{MessageID: fmt.Sprintf("job-%08d", i), Payload: benchPayload}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range jobs {
		token := uint64(i + 1)
		for c.granted < token {
			c.pump()
		}
		c.step(ProducerMessage{Conn: 1, Message: protocol.Produced{Session: c.session, Token: token, Job: jobs[i]}})
	}
	for c.done < b.N {
		c.pump()
	}
}

// BenchmarkConsumer is the cost of one job from its delivery to the moment that it is taken over, on a worker that pulls from so
// many flows.
func BenchmarkConsumer(b *testing.B) {
	for _, flows := range []int{1, 4, 16} {
		b.Run(fmt.Sprint("flows=", flows), func(b *testing.B) { benchConsumer(b, flows) })
	}
}

func benchConsumer(b *testing.B, flows int) {
	b.Helper()
	const window = 64
	names := make([]string, flows)
	for i := range names {
		names[i] = fmt.Sprint("flow-", i)
	}
	group := NewConsumerGroup(ConsumerConfig{Window: window, Concurrency: 4}, protocol.Incarnation{PodUID: "p", BootNonce: "b"},
		&testRandom{}, names...)
	var runs []RunID
	var nonce string
	step := func(ev ConsumerEvent) {
		for _, a := range group.Step(0, ev) {
			switch a := a.(type) {
			case StartHandler:
				runs = append(runs, a.Run)
			case ToController:
				if m, ok := a.Message.(protocol.RegisterConsumer); ok {
					nonce = m.Nonce
				}
			}
		}
	}
	step(AppReady{true})
	for i, name := range names {
		conn := ConnID(i + 1)
		step(Connected{Conn: conn, Flow: name})
		step(FromController{conn, protocol.RegistrationAck{
			Session: "s", Nonce: nonce, BindingID: "binding", Secret: "secret", NextSeq: 1, Window: window,
			Heartbeat: 2 * time.Second, Deadline: 10 * time.Second,
		}})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += 16 {
		conn := ConnID(done/16%flows + 1)
		next := int64(done/16/flows*16 + 1)
		frame := protocol.SequencedMessage{BindingID: "binding", Deliveries: make([]protocol.Delivery, 16)}
		for i := range frame.Deliveries {
			seq := next + int64(i)
			frame.Deliveries[i] = protocol.Delivery{
				WorkerSeq: seq, StoreSeq: seq, Attempt: 1, Job: protocol.Job{MessageID: benchIDs[seq%int64(len(benchIDs))], Payload: benchPayload},
			}
		}
		step(FromController{conn, frame})
		for len(runs) > 0 {
			run := runs[0]
			runs = runs[:copy(runs, runs[1:])]
			step(HandlerDone{Run: run, Outcome: protocol.Confirmed})
		}
		step(FromController{conn, protocol.SettledAck{BindingID: "binding", UpTo: next + 15}})
	}
	if got := group.Status(0).Confirmed; got < uint64(b.N) {
		b.Fatalf("%d of %d jobs confirmed", got, b.N)
	}
}

var benchIDs = func() (ids []string) {
	for i := range 1024 {
		ids = append(ids, fmt.Sprint("job-", i))
	}
	return ids
}()
