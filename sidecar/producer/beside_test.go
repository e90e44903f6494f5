package producer_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// besideApp is an app in the pod of a producer, with one producer stream on the socket.
type besideApp struct {
	stream  protocolv1.WorkPulling_ProduceClient
	session string
	tokens  uint64 // used
	upTo    uint64
}

// dialBeside connects to the pod's socket, without any credential.
func (p *pod) dialBeside() protocolv1.WorkPullingClient {
	p.t.Helper()
	conn, err := grpc.NewClient("unix:"+p.options.ProducerSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	return protocolv1.NewWorkPullingClient(conn)
}

// produce opens a stream and waits for its grant. It is an error where nobody takes jobs yet.
func (p *pod) produce(ctx context.Context) (*besideApp, error) {
	p.t.Helper()
	stream, err := p.dialBeside().Produce(ctx)
	if err != nil {
		return nil, err
	}
	app := &besideApp{stream: stream}
	for app.upTo == 0 {
		if _, err := app.next(); err != nil {
			return nil, err
		}
	}
	return app, nil
}

// next returns the next message that is no grant, or the first grant.
func (a *besideApp) next() (protocol.ToProducer, error) {
	for {
		frame, err := a.stream.Recv()
		if err != nil {
			return nil, err
		}
		messages, err := wire.DecodeToProducer(frame)
		if err != nil {
			return nil, err
		}
		message := messages[0] // an app that sends no batch gets none
		grant, ok := message.(protocol.RequestNext)
		if !ok {
			return message, nil
		}
		first := a.upTo == 0
		a.session, a.upTo = grant.Session, grant.UpTo
		if first {
			return grant, nil
		}
	}
}

// submit sends one job and returns the answer to it.
func (a *besideApp) submit(t *testing.T, id, body string) protocol.ToProducer {
	t.Helper()
	a.tokens++
	job := protocol.Job{MessageID: id, Payload: []byte(body)}
	if err := a.stream.Send(wire.EncodeFromProducer(false, protocol.Produced{Session: a.session, Token: a.tokens, Job: job})[0]); err != nil {
		t.Fatal(err)
	}
	for {
		answer, err := a.next()
		if err != nil {
			t.Fatal(err)
		}
		if stored, ok := answer.(protocol.Stored); ok {
			if stored.Token != a.tokens {
				continue // a repeat of an earlier answer
			}
			ack := protocol.StoredAck{Session: stored.Session, Token: stored.Token, MessageID: stored.MessageID}
			if err := a.stream.Send(wire.EncodeFromProducer(false, ack)[0]); err != nil {
				t.Fatal(err)
			}
		}
		return answer
	}
}

// The app beside produces over the socket without a token, by the rules that hold over TLS.
func TestTheAppBesideProducesOverTheSocket(t *testing.T) {
	p := newPod(t)
	p.configure(func(d *runtimeconfig.Producer) { d.QueueType = "Memory" })
	p.start()
	app, err := p.produce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		id, body string
		want     protocol.StoreVerdict
	}{
		{"a", "one", protocol.StoredNew}, {"b", "two", protocol.StoredNew},
		{"a", "one", protocol.AlreadyStored}, {"b", "another", protocol.BodyMismatch},
	} {
		stored, ok := app.submit(t, step.id, step.body).(protocol.Stored)
		if !ok || stored.Verdict != step.want || stored.MessageID != step.id {
			t.Errorf("%s: %+v, want verdict %d", step.id, stored, step.want)
		}
	}
	if refused, ok := app.submit(t, "c", "").(protocol.Refused); !ok || refused.Code != protocol.RefusedInvalid {
		t.Errorf("an empty payload was answered with %+v", refused)
	}
}

// Whoever reaches the socket is no worker, and no member of the flow.
func TestTheSocketServesProducersAlone(t *testing.T) {
	p := newPod(t)
	p.start()
	client := p.dialBeside()
	pull, err := client.Pull(t.Context())
	if err == nil {
		_, err = pull.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("Pull ended with %v", err)
	}
	conn, err := grpc.NewClient("unix:"+p.options.ProducerSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := protocolv1.NewProducerMemberClient(conn).Look(t.Context(), &protocolv1.LookRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("Look ended with %v", err)
	}
}

// The app beside a standby produces too: its stream is passed on, with the token of the pod.
func TestTheProducerSocketOfAStandbyWorks(t *testing.T) {
	c := newCrew(t, 2)
	for _, p := range c.members {
		p.options.TokenFile = transporttest.TokenFile(t, "user:beside")
		p.start()
	}
	standby := c.another(c.active())
	var app *besideApp
	standby.until("a grant", func() bool {
		var err error
		app, err = standby.produce(t.Context())
		return err == nil
	})
	if stored, ok := app.submit(t, "a", "one").(protocol.Stored); !ok || stored.Verdict != protocol.StoredNew {
		t.Errorf("answered with %+v", stored)
	}
	direct, err := c.members[c.active()].produce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stored, ok := direct.submit(t, "a", "one").(protocol.Stored); !ok || stored.Verdict != protocol.AlreadyStored {
		t.Errorf("the active one, asked for the same, answered with %+v", stored)
	}
}
