package trial

import "context"

// System is one contestant. A value plays its part in one process: the processes of a trial each make their own.
type System interface {
	// Name is unique among all systems, and how -only chooses it.
	Name() string
	// Settings says for people what the system is made to promise and how it was tuned.
	Settings() string
	// Available says why the system cannot run on this machine; nil where it can.
	Available() error
	// Processes are the processes of a trial in the order of their start. Each is ready before the next starts.
	Processes(s *Stage) []Process
	// Serve starts a role that stands between producers and workers, and returns how to stop it.
	Serve(ctx context.Context, s *Stage, role string) (stop func() error, err error)
	// Produce opens the way in.
	Produce(ctx context.Context, s *Stage) (Submitter, error)
	// Consume starts one worker, which gives each job's payload to handle once, and returns how to stop it.
	Consume(ctx context.Context, s *Stage, worker int, handle func(payload []byte)) (stop func() error, err error)
}

// Process is a child process and what it does. All zero but the name is a mistake.
type Process struct {
	Name string
	// Serve are roles for System.Serve.
	Serve []string
	// Workers are the numbers of the workers that it hosts, from 0.
	Workers []int
	// Produces says that it is the producing app. Exactly one process of a system is.
	Produces bool
}

// Submitter is how a producing app hands jobs in.
type Submitter interface {
	// Submit returns when all jobs are accepted: stored, where the system promises to store. Callers of it run at once, as many as Pace says.
	Submit(ctx context.Context, jobs []Job) error
	// Pace is what the system is fastest with.
	Pace() Pace
	Close() error
}

// Pace says how many callers submit at once, and how many jobs each submits in a call, at most.
type Pace struct{ Callers, Batch int }

// TwoProcesses is the usual layout: a producer that also hosts serve, and the workers, in WorkerProcesses of the stage.
func TwoProcesses(s *Stage, serve ...string) []Process {
	return append([]Process{{Name: "producer", Serve: serve, Produces: true}}, Workers(s)...)
}

// Workers spreads the workers of a stage over their processes.
func Workers(s *Stage) []Process {
	processes := make([]Process, min(max(s.WorkerProcesses, 1), s.Workers))
	for i := range processes {
		processes[i].Name = "worker"
	}
	for w := range s.Workers {
		p := &processes[w%len(processes)]
		p.Workers = append(p.Workers, w)
	}
	return processes
}
