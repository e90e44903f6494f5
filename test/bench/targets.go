package main

import "github.com/workpulling/workpulling/test/bench/internal/report"

// GoAkt's work pulling is in no release yet. These figures of it stand in, with what JetStream's memory stream gave beside them.
const (
	standInJetStream = 58_000
	goaktInProcess   = 85_000
	goaktTwo         = 42_000
	goaktDurable     = 940
)

// targets are the ratios that this project wants to reach.
func targets() []report.Target {
	flood := func(system string) string { return system + "/flood/256B/4w" }
	large := func(system string) string { return system + "/flood/4096B/4w" }
	pace := func(system string) string { return system + "/paced/256B/4w/2000" }
	lone := func(system string) string { return system + "/single/256B/4w" }
	goakt := func(work, ours string, figure, want float64) report.Target {
		return report.Target{
			Work: work, Ours: flood(ours), Reference: flood("jetstream-memory"), Of: report.Throughput,
			StandIn: figure, ScaleFigure: standInJetStream, StandInName: "GoAkt (stands in)", Want: want,
		}
	}
	rate := func(work, ours, reference string, want float64) report.Target {
		return report.Target{Work: work, Ours: ours, Reference: reference, Of: report.Throughput, Want: want}
	}
	at := func(work, ours, reference string, of report.Quantity, want float64) report.Target {
		return report.Target{Work: work, Ours: ours, Reference: reference, Of: of, Want: want}
	}
	return []report.Target{
		goakt("in-process, memory", "inprocess-memory", goaktInProcess, 3),
		rate("direct, memory, TLS", flood("direct-memory"), flood("jetstream-memory"), 2.5),
		rate("direct, memory, no TLS", flood("direct-memory-plain"), flood("jetstream-memory"), 2.5),
		goakt("direct, memory, TLS", "direct-memory", goaktTwo, 3.5),
		rate("direct, memory, TLS, 4 KiB", large("direct-memory"), large("jetstream-memory"), 1.5),
		rate("direct, Local, TLS", flood("direct-local"), flood("jetstream-file-always"), 50),
		rate("direct, Local, TLS", flood("direct-local"), flood("jetstream-file"), 1.9),
		goakt("direct, Local, TLS", "direct-local", goaktDurable, 75),
		rate("direct, PostgreSQL, TLS", flood("direct-postgres"), flood("river"), 3),
		rate("sidecars, gRPC handler, memory", flood("sidecars-grpc-memory"), flood("jetstream-memory"), 1.25),
		rate("sidecars, gRPC handler, Local", flood("sidecars-grpc-local"), flood("rabbitmq-quorum"), 4),
		rate("sidecars, HTTP handler, Local", flood("sidecars-http-local"), flood("rabbitmq-quorum"), 1),
		rate("sidecars, HTTP handler, Local", flood("sidecars-http-local"), flood("relay-http-durable"), 0.8),
		at("2,000 jobs/s, direct, memory, TLS", pace("direct-memory"), pace("jetstream-memory"), report.P50, 1),
		at("2,000 jobs/s, direct, memory, TLS", pace("direct-memory"), pace("jetstream-memory"), report.P99, 1),
		rate("one submit at a time, direct, Local", lone("direct-local"), lone("jetstream-file-always"), 1),
		at("2,000 jobs/s, sidecars, gRPC handler, memory", pace("sidecars-grpc-memory"), pace("relay-hops"), report.P50, 1.5),
		at("2,000 jobs/s, sidecars, gRPC handler, memory", pace("sidecars-grpc-memory"), pace("relay-hops"), report.P99, 1.5),
		at("2,000 jobs/s, sidecars, gRPC handler, Local", pace("sidecars-grpc-local"), pace("relay-hops-durable"), report.P50, 1.5),
		at("2,000 jobs/s, sidecars, gRPC handler, Local", pace("sidecars-grpc-local"), pace("relay-hops-durable"), report.P99, 1.5),
		at("full load, sidecars, gRPC handler, memory", flood("sidecars-grpc-memory"), flood("jetstream-memory"), report.CPU, 1),
		at("2,000 jobs/s, sidecars, HTTP handler, memory", pace("sidecars-http-memory"), pace("relay-http"), report.P50, 1.5),
		at("2,000 jobs/s, sidecars, HTTP handler, memory", pace("sidecars-http-memory"), pace("relay-http"), report.P99, 1.5),
		at("2,000 jobs/s, sidecars, HTTP handler, Local", pace("sidecars-http-local"), pace("relay-http-durable"), report.P50, 1.5),
		at("2,000 jobs/s, sidecars, HTTP handler, Local", pace("sidecars-http-local"), pace("relay-http-durable"), report.P99, 1.5),
		rate("one submit at a time, direct, Local", lone("direct-local"), lone("river"), 1),
		rate("one submit at a time, direct, Local", lone("direct-local"), lone("append"), 0.5),
	}
}
