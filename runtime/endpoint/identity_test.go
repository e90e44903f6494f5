package endpoint_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// A refused worker is told why, gets no binding, and binds as soon as it may (B-080, B-091).
func TestRefusedWorkerIsToldAndComesBack(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.tokens.Refuse(&transport.Refusal{Code: protocol.RefusedIdentity, Label: transport.LabelPodForeign, Reason: "of another flow", RetryAfter: 50 * time.Millisecond})
	f.start(t)
	c := newCrew()
	worker, _ := c.join(t, f, "w0", succeed)
	submit(t, f, 0, 10)
	eventually(t, "the worker knows why", func() bool { return worker.Status().LastRefusal != "" })
	if s := f.stats(t); len(s.Bindings) != 0 || s.Refused[transport.LabelPodForeign] == 0 {
		t.Errorf("%d bindings, refusals %v", len(s.Bindings), s.Refused)
	}
	f.tokens.Refuse(errors.New("the API server is down"))
	eventually(t, "the outage is counted apart", func() bool { return f.stats(t).Refused[transport.LabelUnavailable] > 0 })
	f.tokens.Refuse(nil)
	f.settled(t)
	c.check(t, 10)
}

// A binding lives on while identities cannot be checked (B-250); only a reconnect needs the check.
func TestOutageOfIdentityChecksLeavesBindingsAlone(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	worker, _ := c.join(t, f, "w0", succeed)
	submit(t, f, 0, 10)
	f.settled(t)
	f.tokens.Refuse(errors.New("the API server is down"))
	submit(t, f, 10, 100)
	f.settled(t)
	c.check(t, 110)
	if !worker.Status().Registered {
		t.Error("the binding ended")
	}
}

// The claim in a registration must be the pod of the token (B-081).
func TestRegistrationOfAnotherPodIsRefused(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	stream, err := f.peer(t, "pod:thief").DialWorker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if err := stream.Send(protocol.RegisterConsumer{
		Version: protocol.Version, Nonce: "n", Incarnation: protocol.Incarnation{PodUID: "victim", BootNonce: "b"}, Window: 10,
	}); err != nil {
		t.Fatal(err)
	}
	message, err := stream.Recv()
	if refused, ok := message.(protocol.RegistrationRefused); !ok || refused.Code != protocol.RefusedIdentity || refused.Nonce != "n" {
		t.Errorf("%v, %v", message, err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
	if n := len(f.stats(t).Bindings); n != 0 {
		t.Errorf("%d bindings", n)
	}
}

// Malformed frames are tolerated in small numbers; a flood ends the stream and the pod has to wait, nobody else (B-204).
func TestFloodOfMalformedFramesHurtsItsSenderOnly(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	c.join(t, f, "good", succeed)
	stream, err := f.peer(t, "pod:bad").DialWorker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for range 10_000 {
		if stream.Send(protocol.Drain{}) != nil { // no binding id, no secret
			break
		}
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream lives on")
	}
	again, err := f.peer(t, "pod:bad").DialWorker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Send(protocol.RegisterConsumer{
		Version: protocol.Version, Nonce: "n", Incarnation: protocol.Incarnation{PodUID: "bad", BootNonce: "b"}, Window: 10,
	}); err != nil {
		t.Fatal(err)
	}
	message, err := again.Recv()
	if refused, ok := message.(protocol.RegistrationRefused); !ok || refused.Code != protocol.RefusedCoolingDown || refused.RetryAfter <= 0 {
		t.Errorf("%v, %v", message, err)
	}
	submit(t, f, 0, 100)
	f.settled(t)
	c.check(t, 100)
}

// The handshake over the wire: a token, a job, its receipt, the acknowledgement, the notice of completion (G-030…G-037, G-110).
func TestProducerStream(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.options.Config.DeliveryConfirmation = true
	f.start(t)
	c := newCrew()
	c.join(t, f, "w0", succeed)
	stream, err := f.peer(t, "user:alice").DialProducer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var session string
	var granted, used uint64
	stored, confirmed := map[string]int64{}, map[string]int64{}
	const jobs = 200
	for len(confirmed) < jobs {
		messages, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range messages {
			switch m := message.(type) {
			case protocol.RequestNext:
				session, granted = m.Session, max(granted, m.UpTo)
			case protocol.Stored:
				if first, ok := stored[m.MessageID]; ok && first != m.StoreSeq {
					t.Fatalf("%s stored as %d and %d", m.MessageID, first, m.StoreSeq)
				}
				stored[m.MessageID] = m.StoreSeq
				if err := stream.Send(protocol.StoredAck{Session: m.Session, Token: m.Token, MessageID: m.MessageID}); err != nil {
					t.Fatal(err)
				}
			case protocol.DeliveryConfirmed:
				confirmed[m.MessageID] = m.StoreSeq
			case protocol.Refused:
				t.Fatalf("refused: %v", m)
			}
		}
		for used < min(granted, jobs) {
			used++
			if err := stream.Send(protocol.Produced{Session: session, Token: used, Job: jobNamed(fmt.Sprint("job-", used))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for id, seq := range confirmed {
		if stored[id] != seq {
			t.Errorf("%s stored as %d, confirmed as %d", id, stored[id], seq)
		}
	}
	c.check(t, jobs)
}

// A producer that breaks a limit is told, keeps its token, and the flow lives (B-005, B-012).
func TestProducerStreamRefusesABrokenJob(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	stream, err := f.peer(t, "user:alice").DialProducer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	grant := receive[protocol.RequestNext](t, stream)
	if err := stream.Send(protocol.Produced{Session: grant.Session, Token: 1, Job: protocol.Job{MessageID: "empty"}}); err != nil {
		t.Fatal(err)
	}
	if refused := receive[protocol.Refused](t, stream); refused.Code != protocol.RefusedInvalid || refused.Token != 1 {
		t.Errorf("%v", refused)
	}
	if err := stream.Send(protocol.Produced{Session: grant.Session, Token: 1, Job: jobNamed("right")}); err != nil {
		t.Fatal(err)
	}
	if stored := receive[protocol.Stored](t, stream); stored.MessageID != "right" || stored.Verdict != protocol.StoredNew {
		t.Errorf("%v", stored)
	}
}

func receive[M protocol.ToProducer](t *testing.T, stream *transport.ProducerStream) M {
	t.Helper()
	for {
		messages, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range messages {
			if m, ok := message.(M); ok {
				return m
			}
		}
	}
}

// A stream that says nothing for too long loses its credit.
func TestSilentProducerStreamIsClosed(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	f.producer.SetStreamTimeout(50 * time.Millisecond)
	stream, err := f.peer(t, "user:alice").DialProducer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for err == nil {
		_, err = stream.Recv()
	}
	eventually(t, "only the intake's own credit is left", func() bool { return f.stats(t).OpenGrants <= endpoint.DefaultCredits })
}
