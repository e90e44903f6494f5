package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/sidecar/handler"
	"github.com/workpulling/workpulling/sidecar/telemetry"
)

// errNotStream tells an app that opens a stream to a worker which posts its jobs.
var errNotStream = errors.New("this worker posts its jobs over HTTP: set spec.handler.stream in its WorkerPool to have them on a stream")

// app is the worker's app as the sidecar sees it: how it is reached, whether it takes jobs, and how long it takes. It is reached over HTTP
// or by the streams that it opens, as the newest configuration says; a job ends the way it began.
type app struct {
	http      *handler.HTTP
	streams   *handler.Streams
	host      string
	target    atomic.Pointer[handler.Target]
	streaming atomic.Bool
	listens   atomic.Bool // the port was last seen to answer
	poke      chan struct{}
	seconds   *telemetry.HandlerSeconds
}

// hooks are what the app is asked and told by its streams.
type hooks struct {
	changed, earlierEnded func()
	concurrency           func() int
	timeout               func() time.Duration
}

func newApp(lifetime context.Context, log logr.Logger, doc runtimeconfig.Worker, host string, seconds *telemetry.HandlerSeconds, hooks hooks) *app {
	a := &app{host: host, poke: make(chan struct{}, 1), seconds: seconds}
	a.http = handler.New(lifetime, "/namespaces/"+doc.Namespace, a.where, a.suspect)
	a.streams = handler.NewStreams(handler.StreamsOptions{
		Log: log, Namespace: doc.Namespace, Pool: doc.Pool,
		Concurrency: hooks.concurrency, Timeout: hooks.timeout, Changed: hooks.changed, EarlierEnded: hooks.earlierEnded,
	})
	return a
}

// retarget puts the handler of a document in force.
func (a *app) retarget(doc runtimeconfig.Worker) {
	streaming := doc.Handler == runtimeconfig.HandlerStream
	a.streaming.Store(streaming)
	if streaming {
		a.target.Store(&handler.Target{}) // no port to look at
		a.listens.Store(false)
		a.streams.Refuse(nil)
	} else {
		a.target.Store(&handler.Target{Host: a.host, Port: doc.HandlerPort, Path: doc.HandlerPath})
		a.streams.Refuse(errNotStream)
	}
	a.suspect()
}

func (a *app) where() handler.Target { return *a.target.Load() }

// suspect makes the probe look at once.
func (a *app) suspect() {
	select {
	case a.poke <- struct{}{}:
	default: // a look is due already
	}
}

// ready is why the app takes no jobs, or nil.
func (a *app) ready() error {
	switch {
	case a.streaming.Load() && !a.streams.Ready():
		return errors.New("the app has no stream open")
	case !a.streaming.Load() && !a.listens.Load():
		return fmt.Errorf("the app does not listen on %s", a.where().Address())
	}
	return nil
}

// concurrency is how many jobs the app takes at once, where the pool says most.
func (a *app) concurrency(most int) int {
	if capacity := a.streams.Capacity(); a.streaming.Load() && capacity > 0 {
		return min(most, capacity)
	}
	return most
}

// handlerOf is the app as the handler of one flow. It times the answers.
func (a *app) handlerOf(namespace, flow string) endpoint.Handler {
	http, stream := a.http.From("/namespaces/"+namespace+"/flows/"+flow), a.streams.For(flow)
	return endpoint.HandlerFunc(func(ctx context.Context, d protocol.Delivery) endpoint.Result {
		var way endpoint.Handler = http
		if a.streaming.Load() {
			way = stream
		}
		began := time.Now() //nolint:forbidigo // a measurement, no decision
		result := way.Handle(ctx, d)
		a.seconds.Observe(result.Outcome, time.Since(began).Seconds()) //nolint:forbidigo // a measurement, no decision
		return result
	})
}
