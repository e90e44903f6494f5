package delivery

import "github.com/workpulling/workpulling/runtime/protocol"

// Todo is what the host of a Controller must do after a step, in the order of Actions. What there is to do for every single job stands in
// a list of its own, one for each kind, and a mark without content holds its place among the Actions: the lists are used again and again,
// where an action for each job would be memory for each.
type Todo struct {
	Actions []Action
	// Stored has an entry for each TellStored among the Actions, in their order, Settled one for each TellSettled.
	Stored  []StoredTo
	Settled []JobSettled
}

type (
	// TellStored stands for the next entry of Todo.Stored.
	TellStored struct{}
	// TellSettled stands for the next entry of Todo.Settled.
	TellSettled struct{}
	// StoredTo is a ToProducer with a Stored.
	StoredTo struct {
		Conn   ConnID
		Stored protocol.Stored
	}
)

func (TellStored) controllerAction()  {}
func (TellSettled) controllerAction() {}

func (t *Todo) stored(s StoredTo) {
	t.Stored = append(t.Stored, s)
	t.Actions = append(t.Actions, TellStored{})
}

func (t *Todo) settled(s JobSettled) {
	t.Settled = append(t.Settled, s)
	t.Actions = append(t.Actions, TellSettled{})
}

// reset empties the lists, to be filled again.
func (t *Todo) reset() {
	clear(t.Actions)
	clear(t.Stored)
	clear(t.Settled)
	t.Actions, t.Stored, t.Settled = t.Actions[:0], t.Stored[:0], t.Settled[:0]
}

// appendTo appends an action for each thing to do.
func (t *Todo) appendTo(actions []Action) []Action {
	stored, settled := 0, 0
	for _, a := range t.Actions {
		switch a.(type) {
		case TellStored:
			a = ToProducer{t.Stored[stored].Conn, t.Stored[stored].Stored}
			stored++
		case TellSettled:
			a = t.Settled[settled]
			settled++
		}
		actions = append(actions, a)
	}
	return actions
}

// ConsumerTodo is what the host of a ConsumerGroup must do after a step, as Todo is for a Controller.
type ConsumerTodo struct {
	Actions []ConsumerAction
	// Starts has an entry for each StartNext among the Actions, in their order.
	Starts []StartHandler
}

// StartNext stands for the next entry of ConsumerTodo.Starts.
type StartNext struct{}

func (StartNext) consumerAction() {}

func (t *ConsumerTodo) emit(a ConsumerAction) { t.Actions = append(t.Actions, a) }

func (t *ConsumerTodo) start(s StartHandler) {
	t.Starts = append(t.Starts, s)
	t.Actions = append(t.Actions, StartNext{})
}

func (t *ConsumerTodo) reset() {
	clear(t.Actions)
	clear(t.Starts)
	t.Actions, t.Starts = t.Actions[:0], t.Starts[:0]
}

func (t *ConsumerTodo) appendTo(actions []ConsumerAction) []ConsumerAction {
	started := 0
	for _, a := range t.Actions {
		if _, ok := a.(StartNext); ok {
			a = t.Starts[started]
			started++
		}
		actions = append(actions, a)
	}
	return actions
}
