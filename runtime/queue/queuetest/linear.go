package queuetest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/workpulling/workpulling/runtime/queue"
)

// ErrUndecided: the checker gave up; the history is too concurrent for it.
var ErrUndecided = errors.New("the checker came to no verdict")

// CheckHistory returns an error unless a history of a queue that was empty at its start is linearizable: there is one order of its
// operations that keeps the order in time of those that did not overlap, and in which the contract gives every answer.
//
// An operation whose answer is unknown, or that has none because its process ended, counts as open until the end of the history. One
// that never happened then has its place behind everything that could have seen it.
func CheckHistory(history []Event) error {
	var events, open []porcupine.Event
	answered := map[int]bool{}
	for _, e := range history {
		answered[e.Number] = answered[e.Number] || e.Answer != nil && !e.Answer.Unknown
	}
	for _, e := range history {
		event := porcupine.Event{ClientId: e.Client, Id: e.Number}
		switch {
		case e.Call != nil:
			event.Kind, event.Value = porcupine.CallEvent, *e.Call
			if !answered[e.Number] {
				end := event
				end.Kind, end.Value = porcupine.ReturnEvent, Answer{Unknown: true}
				open = append(open, end)
			}
		case e.Answer.Unknown:
			continue
		default:
			event.Kind, event.Value = porcupine.ReturnEvent, *e.Answer
		}
		events = append(events, event)
	}
	result := porcupine.CheckEventsTimeout(contract, append(events, open...), 3*time.Minute)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return ErrUndecided
	case porcupine.Illegal: // shown below
	}
	var text strings.Builder
	for _, e := range history {
		fmt.Fprintln(&text, e)
	}
	return fmt.Errorf("the history is not linearizable:\n%s", text.String())
}

// world is the state of the model: that of model, and who may write.
type world struct {
	model
	epoch queue.Epoch
}

// contract is the model as the checker wants it. Nothing in a history depends on time.
var contract = porcupine.Model{
	Init: func() any { return world{} },
	Step: func(state, input, output any) (bool, any) {
		before := state.(world)
		after, want := before.step(input.(Call))
		got := output.(Answer)
		if got.Unknown {
			return true, after
		}
		return reflect.DeepEqual(want, got), after
	},
	Equal: reflect.DeepEqual,
}

// step is one operation: the world after it and the answer.
func (w world) step(call Call) (world, Answer) {
	next := world{epoch: w.epoch, model: model{cursor: w.cursor, jobs: maps.Clone(w.jobs)}}
	if next.jobs == nil {
		next.jobs = map[string]modelJob{}
	}
	var err error
	var answer Answer
	switch {
	case call.Op == "load":
		next.epoch++
		answer = Answer{Epoch: next.epoch, Rows: next.rows(), Result: queue.Result{Cursor: next.cursor}}
		for _, j := range next.jobs {
			if j.status == queue.StatusDeadLettered {
				answer.Dead++
			}
		}
	case call.Op == "lookup":
		if j, ok := next.jobs[call.Ref.MessageID]; ok {
			answer.Found = true
			answer.State = j.state()
		}
	case call.Epoch == 0 || call.Epoch != w.epoch:
		err = queue.ErrFenced
	case call.Op == "apply":
		answer.Result, err = next.apply(call.Batch, time.Time{})
	case call.Op == "redrive":
		err = next.redrive(call.Ref)
	case call.Op == "drop":
		err = next.drop(call.Ref, time.Time{})
	}
	if err == nil {
		return next, answer
	}
	for word, refusal := range refusals {
		if errors.Is(err, refusal) {
			return w, Answer{Refusal: word}
		}
	}
	panic("the model knows no other refusal")
}

// Recorder collects the events of a history in memory.
type Recorder struct{ Events []Event }

// Record adds an event; Workload.Run calls it by one goroutine at a time.
func (r *Recorder) Record(e Event) { r.Events = append(r.Events, e) }

// Unknown is how many operations of a history have no answer.
func Unknown(history []Event) int {
	open := map[int]bool{}
	for _, e := range history {
		open[e.Number] = e.Answer == nil || e.Answer.Unknown
	}
	n := 0
	for _, is := range open {
		if is {
			n++
		}
	}
	return n
}

// Renumber lets a history go on where another ended: of another process, or after a restart.
func Renumber(history []Event, more []Event) []Event {
	last := 0
	for _, e := range history {
		last = max(last, e.Number)
	}
	more = slices.Clone(more)
	for i := range more {
		more[i].Number += last
	}
	return append(history, more...)
}
