package report

import (
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/test/bench/internal/breakdown"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

func TestDocument(t *testing.T) {
	row := func(system string, mode trial.Mode) Row {
		return Row{System: system, Mode: mode, PayloadBytes: 256, Workers: 4}
	}
	d := Document{
		Command: "go run . -runs 3", Machine: Machine{CPU: "A CPU", Cores: 2, Kernel: "Linux 1", Go: "go1"},
		Results: []Result{
			{Row: row("ours", trial.Flood), Summary: Summary{Runs: 3, JobsPerSecond: 1234567, Least: 999, Most: 2000000, CPUPerJob: 1500 * time.Nanosecond},
				Shares: []breakdown.Share{{Area: "TLS", Of: 0.75}, {Area: "queue", Of: 0.25}}},
			{Row: row("peer", trial.Flood), Summary: Summary{Runs: 3, JobsPerSecond: 617283.5}},
			{Row: row("loser", trial.Flood), Summary: Summary{Runs: 2, JobsPerSecond: 9e9}, Failures: []string{"job 7 was lost\nits log"}},
			{Row: row("absent", trial.Flood), Skipped: "it is not installed"},
			{Row: row("ours", trial.Paced), Summary: Summary{Runs: 3, JobsPerSecond: 2000, P50: 250 * time.Microsecond, P99: 2 * time.Millisecond}},
		},
		Settings: []Setting{{"ours", "all features"}},
	}
	d.Outcomes = CompareAll([]Target{
		{Work: "work", Ours: row("ours", trial.Flood).Key(), Reference: row("peer", trial.Flood).Key(), Of: Throughput, Want: 2},
		{Work: "unknown", Ours: row("ours", trial.Flood).Key(), Reference: row("absent", trial.Flood).Key(), Of: Throughput, Want: 2},
	}, d.Results)
	text := new(strings.Builder)
	if err := d.Write(text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"go run . -runs 3", "A CPU, 2 cores",
		"| work | jobs/s | 1,234,567 | peer: 617,284 | 2.00 | ≥ 2 | met |",
		"| ours | 256 B | 4 | 1,234,567 | 999 … 2,000,000 | 1.5 µs |",
		"| loser | 256 B | 4 | failed: job 7 was lost |",
		"- absent: it is not installed", "| 2,000 | 0.25 ms | 2.00 ms |", "- ours: all features.",
		"| ours/flood/256B/4w | 1.5 µs | TLS 75 %, queue 25 % |",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the document does not say %q", want)
		}
	}
	for _, unwanted := range []string{"unknown", "9,000,000,000", "its log"} {
		if strings.Contains(text.String(), unwanted) {
			t.Errorf("the document says %q", unwanted)
		}
	}
}
