package main

import (
	"slices"

	"github.com/workpulling/workpulling/test/bench/internal/report"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// The loads that are measured.
const (
	smallJob = 256
	largeJob = 4096
	workers  = 4
	window   = 50
	paceRate = 2000
)

// breadth are the systems that are also measured with other sizes and numbers of workers.
var breadth = []string{"inprocess-memory", "direct-memory", "direct-local", "sidecars-grpc-memory", "sidecars-http-local", "jetstream-memory", "relay", "relay-hops"}

// crowded are the systems that are also measured with many workers.
var crowded = []string{"direct-memory", "direct-local"}

// unbounded are the systems whose backlog is bounded by what the stage says.
var unbounded = []string{"direct-memory", "direct-local", "direct-postgres"}

// paced are the systems whose latency is measured, and single those whose lone submissions are.
var (
	paced = []string{
		"direct-memory", "direct-memory-plain", "direct-local", "sidecars-grpc-memory", "sidecars-grpc-local", "sidecars-http-memory", "sidecars-http-local",
		"jetstream-memory", "jetstream-file", "rabbitmq-quorum", "relay", "relay-durable", "relay-hops", "relay-hops-durable", "relay-http", "relay-http-durable",
	}
	single = []string{"direct-local", "jetstream-file-always", "river", "append"}
)

// rows are all rows: the throughput of each system, and more of some.
func rows(all []trial.System) (rows []report.Row) {
	for _, s := range all {
		rows = append(rows, report.Row{System: s.Name(), Mode: trial.Flood, PayloadBytes: smallJob, Workers: workers})
	}
	for _, s := range all {
		if !slices.Contains(breadth, s.Name()) {
			continue
		}
		for _, size := range []int{smallJob, largeJob} {
			for _, n := range []int{1, 4, 16} {
				if size != smallJob || n != workers { // measured above
					rows = append(rows, report.Row{System: s.Name(), Mode: trial.Flood, PayloadBytes: size, Workers: n})
				}
			}
		}
	}
	for _, name := range crowded {
		rows = append(rows, report.Row{System: name, Mode: trial.Flood, PayloadBytes: smallJob, Workers: crowd})
	}
	for _, name := range paced {
		rows = append(rows, report.Row{System: name, Mode: trial.Paced, PayloadBytes: smallJob, Workers: workers, Rate: paceRate})
	}
	for _, name := range single {
		rows = append(rows, report.Row{System: name, Mode: trial.Single, PayloadBytes: smallJob, Workers: workers})
	}
	return rows
}
