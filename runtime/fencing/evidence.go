package fencing

// answer is what the API server said about one object just now.
type answer int

const (
	notAsked answer = iota // what the watch holds was enough
	silent                 // nothing: it is away, or it does not talk to us
	absent                 // there is no such object
	found                  // there it is
)

// evidence is all that is known about one object.
type evidence[T any] struct {
	// watched is what the watch holds, nil for nothing. filled says that the watch has been complete once in the life of this process;
	// it may be behind, and it stays as it was through an outage.
	watched T
	filled  bool
	answer  answer
	live    T // of an answer found
	// lastSeen is what an earlier process saw and nothing has contradicted since, nil for nothing.
	lastSeen T
}

// weigh says which object to judge; nil is positive evidence that there is none. decided is false where nobody knows.
//
//   - The word of the API server just now goes before all that was heard earlier.
//   - A complete watch goes before what an earlier process saw, even where it holds nothing: what it does not hold was deleted, or is too
//     young for it, and only the API server can tell.
//   - What an earlier process saw counts only while this one has never been told anything.
func weigh[T comparable](e evidence[T]) (object T, decided bool) {
	var none T
	switch e.answer {
	case found:
		return e.live, true
	case absent:
		return none, true
	case notAsked:
		return e.watched, true
	case silent:
	}
	if !e.filled && e.lastSeen != none {
		return e.lastSeen, true
	}
	return none, false
}
