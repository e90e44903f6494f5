package prober

// Record is what the submitters and the observer know of one job.
type Record struct {
	SHA256 string
	// SubmittedAt is when the first submission was about to be sent.
	SubmittedAt Moment
	// Accepted: the intake answered 201 or 200. AcceptedAt is when the first such answer was read.
	Accepted   bool
	AcceptedAt Moment
	// State is what the intake said of the job last: confirmed, dead-lettered, or something else for a job that was never settled.
	State string
	// SettledAt is when the observer had read State, 0 if never.
	SettledAt Moment
}

// Event is what happened to a job, as its submitter saw it.
type Event string

// The events of the books.
const (
	Submitted Event = "submitted"
	Accepted  Event = "accepted"
	Settled   Event = "settled"
)

// Note is one line of the books.
type Note struct {
	At    Moment `json:"at"`
	Event Event  `json:"event"`
	ID    string `json:"id"`
	// SHA256 is that of the payload, in every line.
	SHA256 string `json:"sha256"`
	// State is that of a settled job.
	State string `json:"state,omitempty"`
}

// apply brings a record up to date.
func (n Note) apply(r Record) Record {
	r.SHA256 = n.SHA256
	switch n.Event {
	case Submitted:
		r.SubmittedAt = n.At
	case Accepted:
		r.Accepted, r.AcceptedAt = true, n.At
	case Settled:
		r.State, r.SettledAt = n.State, n.At
	}
	return r
}

// ReadBooks reads the records of every job from the journal of a Load, by message id.
func ReadBooks(path string) (map[string]Record, error) {
	notes, err := ReadJournal[Note](path)
	if err != nil {
		return nil, err
	}
	records := map[string]Record{}
	for _, n := range notes {
		records[n.ID] = n.apply(records[n.ID])
	}
	return records, nil
}
