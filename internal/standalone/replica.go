package standalone

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/sharedsecret"
	"github.com/workpulling/workpulling/sidecar/worker"
)

// replica is one worker of a pool: the sidecar of a worker pod in this process, and its app as a child process.
type replica struct {
	pool    *poolPlan
	name    string
	sidecar *worker.Sidecar
	app     *app
	output  *output
	port    int
	// hinted says that the person knows what an app that does not listen may lack.
	hinted bool
}

func (r *run) newReplica(pool *poolPlan, number int) (*replica, error) {
	name := pool.name(number)
	dir, err := r.data.runDir("workers", name)
	if err != nil {
		return nil, err
	}
	port := pool.port
	if port == 0 {
		if port, err = r.ports.take(); err != nil {
			return nil, err
		}
	}
	document := podbuilder.WorkerDocument(pool.WorkerPool)
	document.HandlerPort = int32(port)
	for i := range document.Flows {
		flow := &document.Flows[i]
		flow.ProducerAddress, flow.ProducerHost = r.producers[flow.Name].Address(), sharedsecret.ServerName
	}
	options := worker.Options{
		Log:         r.Log.WithValues("worker", name),
		Incarnation: protocol.Incarnation{PodUID: name, BootNonce: rand.Text()},
		ConfigFile:  filepath.Join(dir, "config.json"), ConfigPoll: configPoll,
		CAFile: r.secretFile(sharedsecret.CAFile), TokenFile: filepath.Join(dir, "token"),
		AppHost: loopback, StopTimeout: pool.drain(),
	}
	if pool.streams() {
		if options.AppSocket, err = filepath.Abs(filepath.Join(dir, "s")); err != nil {
			return nil, fmt.Errorf("placing the socket of %s: %w", name, err)
		}
	}
	if err := writeDocument(options.ConfigFile, document); err != nil {
		return nil, err
	}
	if err := r.secret.WriteToken(options.TokenFile, name); err != nil {
		return nil, err
	}
	environment, err := pool.environment(r.plan.set, r.inherited(), number, port, options.AppSocket)
	if err != nil {
		return nil, err
	}
	made, err := worker.New(options)
	if err != nil {
		return nil, fmt.Errorf("preparing the worker %s: %w", name, err)
	}
	out := r.Screen.output(name)
	return &replica{
		pool: pool, name: name, sidecar: made, output: out, port: port,
		app: &app{
			name: name, argv: pool.argv(environment), environ: environment.pairs(), dir: pool.dir, port: port, grace: pool.grace,
			output: out, guard: r.guard, say: r.Screen.warn, clock: r.Clock, random: r.random,
		},
	}, nil
}

// inherited is the environment of this process without what is nobody else's business.
func (r *run) inherited() []string {
	secrets := secretVariables(r.Options)
	return slices.DeleteFunc(slices.Clone(r.Environ), func(pair string) bool {
		return secrets[newEnvironment([]string{pair}).names[0]]
	})
}

// run runs the worker and its app until ctx ends. The app goes on until the worker has drained.
func (r *replica) run(ctx context.Context) error {
	appCtx, stopApp := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		r.app.run(appCtx)
		r.output.flush()
	})
	err := r.sidecar.Run(ctx)
	stopApp()
	running.Wait()
	if err != nil {
		return fmt.Errorf("worker %s: %w", r.name, err)
	}
	return nil
}

// pulls says whether the worker pulls from a flow.
func (r *replica) pulls(flow string) bool { return slices.Contains(r.pool.Spec.Flows, flow) }

// deafFor is how long an app may run without listening before a person is told what it may lack.
const deafFor = 10 * time.Second

// ready says whether the worker takes jobs. It is called by one goroutine at a time.
func (r *replica) ready(now time.Time) bool {
	if r.sidecar.Ready() == nil {
		r.hinted = false
		return true
	}
	if since := r.app.runningSince(); !r.hinted && !since.IsZero() && now.Sub(since) > deafFor && !r.sidecar.Status().Draining {
		r.hinted = true
		r.app.say("%s: the app runs, and %s", r.name, r.lacks())
	}
	return false
}

// lacks says what an app that is not ready may have missed.
func (r *replica) lacks() string {
	if r.pool.streams() {
		return "has opened no stream: it has to open one to the Unix socket in the variable " + runtimeconfig.EnvSocket
	}
	return fmt.Sprintf("does not listen on port %d of %s: it has to heed the variable PORT; one that cannot is run with --port %s=N and one replica",
		r.port, loopback, r.pool.Name)
}
