package main

// Execution is one run of a job by one worker. A job that is delivered again has more than one.
type Execution struct {
	// ID is random for each run, so that a worker may repeat a report that it got no answer to.
	ID        string `json:"id"`
	MessageID string `json:"messageID"`
	// EventID and Source are the submitter's ce-id and ce-source.
	EventID string `json:"eventID"`
	Source  string `json:"source"`
	Worker  string `json:"worker"`
	Attempt int    `json:"attempt"`
	// Analysis is there when the run has finished.
	Analysis *Analysis `json:"analysis,omitempty"`
}

// Effect is what the store knows about one message id.
type Effect struct {
	MessageID string `json:"messageID"`
	EventID   string `json:"eventID"`
	Source    string `json:"source"`
	// Started and Finished count executions. Only a finished one has an effect.
	Started  int `json:"started"`
	Finished int `json:"finished"`
	// Worker and Analysis are those of the first execution that finished; later ones change nothing.
	Worker   string    `json:"worker,omitempty"`
	Analysis *Analysis `json:"analysis,omitempty"`
}

// Summary counts the effects of one source.
type Summary struct {
	// Jobs counts message ids that were started, Effects those that have finished.
	Jobs    int `json:"jobs"`
	Effects int `json:"effects"`
	// Started and Finished count executions.
	Started  int `json:"started"`
	Finished int `json:"finished"`
}
