package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/sidecar/handler"
	"github.com/workpulling/workpulling/sidecar/telemetry"
)

// app is the worker's app as the sidecar sees it: where it listens, whether it answers, and how long it takes.
type app struct {
	http    *handler.HTTP
	host    string
	target  atomic.Pointer[handler.Target]
	ready   atomic.Bool
	poke    chan struct{}
	seconds *telemetry.HandlerSeconds
}

func newApp(lifetime context.Context, doc runtimeconfig.Worker, host string, seconds *telemetry.HandlerSeconds) *app {
	a := &app{host: host, poke: make(chan struct{}, 1), seconds: seconds}
	a.retarget(doc)
	a.http = handler.New(lifetime, "/namespaces/"+doc.Namespace, a.where, a.suspect)
	return a
}

func (a *app) retarget(doc runtimeconfig.Worker) {
	a.target.Store(&handler.Target{Host: a.host, Port: doc.HandlerPort, Path: doc.HandlerPath})
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

// handlerOf is the app as the handler of one flow. It times the answers.
func (a *app) handlerOf(namespace, flow string) endpoint.Handler {
	http := a.http.From("/namespaces/" + namespace + "/flows/" + flow)
	return endpoint.HandlerFunc(func(ctx context.Context, d protocol.Delivery) endpoint.Result {
		began := time.Now() //nolint:forbidigo // a measurement, no decision
		result := http.Handle(ctx, d)
		a.seconds.Observe(result.Outcome, time.Since(began).Seconds()) //nolint:forbidigo // a measurement, no decision
		return result
	})
}
