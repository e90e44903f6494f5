package main

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/handler"
)

// sidecar serves streams of the app on a Unix socket, as a worker's sidecar does, until stop is called.
func sidecar(t *testing.T, socket string) (streams *handler.Streams, stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	streams = handler.NewStreams(handler.StreamsOptions{})
	server := grpc.NewServer()
	streams.Register(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	stop = sync.OnceFunc(func() {
		server.Stop()
		serving.Wait()
	})
	t.Cleanup(stop)
	return streams, stop
}

func TestAppOverStreams(t *testing.T) {
	l, store, closed := stores(t)

	cases := map[string]struct {
		store, document string
		failPercent     int
		want            protocol.Outcome
	}{
		"text has its effect":             {store: store.URL, document: "two words\n", want: protocol.Confirmed},
		"binary can never be processed":   {store: store.URL, document: "\xff\xfe", want: protocol.Rejected},
		"a failure is told":               {store: store.URL, document: "x", failPercent: 100, want: protocol.Nacked},
		"without a store the job returns": {store: closed.URL, document: "x", want: protocol.Delayed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			streams, _ := sidecar(t, socket)
			ctx, leave := context.WithCancel(t.Context())
			w := &worker{name: "w", failPercent: c.failPercent, store: newStoreClient(c.store)}
			var working sync.WaitGroup
			working.Go(func() {
				if err := w.take(ctx, socket); err != nil {
					t.Error(err)
				}
			})
			defer working.Wait()
			defer leave()
			transporttest.Eventually(t, "the app opens a stream", streams.Ready)
			if got := streams.For("flow").Handle(t.Context(), job(name, c.document)); got.Outcome != c.want {
				t.Errorf("answered %s, want %s", got.Outcome, c.want)
			}
		})
	}
	// The failed ones started and left no effect.
	if got, want := l.summary("/s"), (Summary{Jobs: 3, Effects: 1, Started: 3, Finished: 1}); got != want {
		t.Errorf("summary %+v, want %+v", got, want)
	}
}

// A sidecar that starts anew gets a new stream, and an app that is told to end finishes what it has.
func TestAppOpensItsStreamAgainAndLeavesInOrder(t *testing.T) {
	l, store, _ := stores(t)
	socket := filepath.Join(t.TempDir(), "s")
	_, stop := sidecar(t, socket)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	w := &worker{name: "w", atLeast: 50 * time.Millisecond, store: newStoreClient(store.URL)}
	left := make(chan error, 1)
	go func() { left <- w.take(ctx, socket) }()
	stop()

	streams, _ := sidecar(t, socket)
	transporttest.Eventually(t, "the app opens a stream again", streams.Ready)
	answered := make(chan endpoint.Result, 1)
	go func() { answered <- streams.For("flow").Handle(context.WithoutCancel(ctx), job("last", "x")) }()
	transporttest.Eventually(t, "the job has started", func() bool { return l.summary("/s").Started == 1 })
	leave()
	if got := <-answered; got.Outcome != protocol.Confirmed {
		t.Errorf("a job that ran when the app left was answered %s", got.Outcome)
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
	if streams.Open() != 0 {
		t.Error("the app left, and its stream takes jobs")
	}
}

func job(id, document string) protocol.Delivery {
	return protocol.Delivery{Job: protocol.Job{MessageID: id, Payload: []byte(document), Headers: map[string]string{"ce-id": id, "ce-source": "/s"}}, Attempt: 1}
}
