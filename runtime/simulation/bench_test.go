package simulation

import "testing"

// BenchmarkSeed is the price of one seed, over all profiles.
func BenchmarkSeed(b *testing.B) {
	b.ReportAllocs()
	var steps uint64
	for seed := uint64(1); b.Loop(); seed++ {
		steps += Run(seed, Options{}).Counts.Steps
	}
	b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
}
