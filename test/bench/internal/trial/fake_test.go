package trial

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// fake is a queue in one process, with a flaw.
type fake struct {
	flaw string
	jobs chan []byte
}

// fakes are a fake without a flaw and one with each.
func fakes() []System {
	all := []System{}
	for _, flaw := range []string{"none", "loses", "repeats", "alters", "invents", "refuses", "deaf", "hangs"} {
		all = append(all, &fake{flaw: flaw})
	}
	return all
}

func (f *fake) Name() string     { return f.flaw }
func (f *fake) Settings() string { return "a fake" }
func (f *fake) Available() error { return nil }

func (f *fake) Processes(s *Stage) []Process {
	return []Process{{Name: "all", Serve: []string{"queue"}, Workers: Workers(s)[0].Workers, Produces: true}}
}

func (f *fake) Serve(context.Context, *Stage, string) (func() error, error) {
	if f.flaw == "deaf" {
		return nil, errors.New("this system cannot start")
	}
	f.jobs = make(chan []byte, 2*Backlog)
	return func() error { return nil }, nil
}

func (f *fake) Produce(context.Context, *Stage) (Submitter, error) { return f, nil }
func (f *fake) Pace() Pace                                         { return Pace{Callers: 2, Batch: 10} }
func (f *fake) Close() error                                       { return nil }

func (f *fake) Submit(_ context.Context, jobs []Job) error {
	for _, j := range jobs {
		payload := j.Payload
		if j.Number == 7 {
			switch f.flaw {
			case "loses":
				continue
			case "repeats":
				f.jobs <- payload
			case "alters":
				payload = slices.Clone(payload)
				payload[len(payload)-1]++
			case "invents":
				f.jobs <- MakeJob(1_000_000_000, 0, len(payload)).Payload
			case "refuses":
				return errors.New("this system is full")
			}
		}
		f.jobs <- payload
	}
	return nil
}

func (f *fake) Consume(_ context.Context, _ *Stage, _ int, handle func([]byte)) (func() error, error) {
	over := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		for {
			select {
			case payload := <-f.jobs:
				handle(payload)
			case <-over:
				return
			}
		}
	})
	return func() error {
		if f.flaw == "hangs" {
			return errors.New("this system does not end in order")
		}
		close(over)
		working.Wait()
		return nil
	}, nil
}
