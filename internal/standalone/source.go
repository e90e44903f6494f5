package standalone

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// EnvIntake names the variable with the path of the Unix socket where a producing app submits over HTTP. In a cluster there is none: the
// socket is always at runtimeconfig.IntakeSocket.
const EnvIntake = "WORKPULLING_INTAKE_SOCKET"

// source is a producing app: what runs beside the producer sidecar in a cluster.
type source struct {
	app    *app
	output *output
}

func (r *run) newSource(plan *sourcePlan) (*source, error) {
	name := runtimeconfig.ProducerName(plan.Name)
	intake, err := filepath.Abs(r.data.run("intake.sock"))
	if err != nil {
		return nil, fmt.Errorf("placing the socket of the intake: %w", err)
	}
	own := []string{"HOSTNAME=" + name, EnvIntake + "=" + intake}
	if path := r.producerSocketPath(plan.Name); path != "" {
		streams, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("placing the socket of flow %s: %w", plan.Name, err)
		}
		own = append(own, runtimeconfig.EnvSocket+"="+streams)
	}
	e, err := plan.environ(r.plan.set, r.inherited(), name, plan.Namespace, podbuilder.ProducerServiceAccount(plan.WorkPullingFlow), own)
	if err != nil {
		return nil, err
	}
	out := r.Screen.output(name)
	return &source{output: out, app: &app{
		name: name, argv: plan.argv(e), environ: e.pairs(), dir: plan.dir, grace: plan.grace,
		output: out, guard: r.guard, say: r.Screen.warn, clock: r.Clock, random: r.random,
	}}, nil
}

// run keeps the app running until ctx ends.
func (s *source) run(ctx context.Context) error {
	s.app.run(ctx)
	s.output.flush()
	return nil
}
