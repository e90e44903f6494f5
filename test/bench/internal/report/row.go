package report

import (
	"fmt"

	"github.com/workpulling/workpulling/test/bench/internal/breakdown"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Row is one line to measure: a system under one load.
type Row struct {
	System       string     `json:"system"`
	Mode         trial.Mode `json:"mode"`
	PayloadBytes int        `json:"payloadBytes"`
	Workers      int        `json:"workers"`
	// Rate is that of trial.Paced.
	Rate int `json:"rate,omitempty"`
}

// Key names the row.
func (r Row) Key() string {
	key := fmt.Sprintf("%s/%s/%dB/%dw", r.System, r.Mode, r.PayloadBytes, r.Workers)
	if r.Rate > 0 {
		key += fmt.Sprintf("/%d", r.Rate)
	}
	return key
}

// Result is what became of a row.
type Result struct {
	Row     Row     `json:"row"`
	Summary Summary `json:"summary"`
	// Failures are the runs that were judged wrong or did not come off. A row with one has no figure.
	Failures []string `json:"failures,omitempty"`
	// Skipped says why the system cannot run here.
	Skipped string `json:"skipped,omitempty"`
	// Shares is what its CPU went to, where that was asked for.
	Shares []breakdown.Share `json:"shares,omitempty"`
}

// Measured says that the row has figures to compare.
func (r Result) Measured() bool { return r.Summary.Runs > 0 && len(r.Failures) == 0 }
