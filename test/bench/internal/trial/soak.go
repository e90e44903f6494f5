package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Slice is a part of a soak.
type Slice struct {
	// Jobs were handled in it.
	Jobs uint64 `json:"jobs"`
	// P50 and P99 are from the intended send to the handler, of the jobs that were to be sent in it.
	P50       time.Duration `json:"p50Nanoseconds"`
	P99       time.Duration `json:"p99Nanoseconds"`
	CPUPerJob time.Duration `json:"cpuPerJobNanoseconds"`
	// Memory is that of the processes at its end.
	Memory []Memory `json:"memory"`
}

// SoakFigures are what a soak measured.
type SoakFigures struct {
	Slices []Slice `json:"slices"`
	// Jobs is how many were submitted, accepted and handled once each.
	Jobs uint64 `json:"jobs"`
	// Flatness is how the memory of each process went.
	Flatness []Flatness `json:"flatness"`
}

// Flatness compares the last third of a soak with the second one, by the medians of their resident memory.
type Flatness struct {
	Process string `json:"process"`
	Second  uint64 `json:"secondBytes"`
	Last    uint64 `json:"lastBytes"`
}

// Tolerance is how much the memory of the last third may exceed that of the second one.
const Tolerance = 0.10

// Flat says that the memory did not grow.
func (f Flatness) Flat() bool { return float64(f.Last) <= float64(f.Second)*(1+Tolerance) }

// RunSoak runs a trial at the rate of its stage for as many slices as that says. tell hears of each as it ends, without latencies. An
// error means that a job was lost or handled twice, or that it did not come off; memory that grows is for the caller to judge.
func (t Trial) RunSoak(ctx context.Context, tell func(slice int, s Slice)) (figures SoakFigures, err error) {
	t.Stage.Mode = Paced
	err = t.perform(func(r run) error {
		if figures.Slices, err = r.soak(ctx, tell); err != nil {
			return err
		}
		figures.Jobs = r.ledger.Accepted()
		words, err := r.end()
		if err != nil {
			return err
		}
		figures.Flatness = flatness(figures.Slices)
		return latencies(figures.Slices, words)
	})
	return figures, err
}

func (r run) soak(ctx context.Context, tell func(int, Slice)) (slices []Slice, err error) {
	r.ledger.SetPhase(Running)
	defer r.ledger.SetPhase(Ending)
	if err := r.await(ctx, r.Warm); err != nil {
		return nil, err
	}
	r.ledger.MeasureFrom(Monotonic())
	from, err := take(r.ledger)
	if err != nil {
		return nil, err
	}
	began := from.at
	for n := range r.Stage.Slices {
		if err := r.await(ctx, time.Until(began.Add(time.Duration(n+1)*r.Stage.Slice))); err != nil {
			return nil, err
		}
		to, err := take(r.ledger)
		if err != nil {
			return nil, err
		}
		leg, err := r.leg(from, to, to.handled-from.handled)
		if err != nil {
			return nil, err
		}
		slice := Slice{Jobs: leg.Jobs, CPUPerJob: leg.CPUPerJob, Memory: leg.Memory}
		slices, from = append(slices, slice), to
		tell(n+1, slice)
	}
	r.ledger.SetPhase(Ending)
	return slices, drained(ctx, r.ledger, drainLimit)
}

// latencies adds what the workers have measured.
func latencies(slices []Slice, words []word) error {
	for n := range slices {
		all := NewHistogram()
		for _, w := range words {
			if n < len(w.Slices) {
				if err := merge(all, w.Slices[n]); err != nil {
					return err
				}
			}
		}
		if all.TotalCount() == 0 {
			return fmt.Errorf("no latency was measured in slice %d", n+1)
		}
		slices[n].P50, slices[n].P99 = quantile(all, 50), quantile(all, 99)
	}
	return nil
}

func flatness(all []Slice) (list []Flatness) {
	third := len(all) / 3
	if third == 0 {
		return nil
	}
	for p, m := range all[0].Memory {
		list = append(list, Flatness{
			Process: m.Process, Second: middle(all[third:2*third], p), Last: middle(all[2*third:], p),
		})
	}
	return list
}

// middle is the median of a process's resident memory.
func middle(part []Slice, process int) uint64 {
	sizes := make([]uint64, len(part))
	for i, s := range part {
		sizes[i] = s.Memory[process].Resident()
	}
	slices.Sort(sizes)
	return sizes[len(sizes)/2]
}

// Grown says which processes' memory did not stay flat.
func (f SoakFigures) Grown() error {
	var errs []error
	for _, p := range f.Flatness {
		if !p.Flat() {
			errs = append(errs, fmt.Errorf("the memory of %s grew from %d to %d bytes", p.Process, p.Second, p.Last))
		}
	}
	return errors.Join(errs...)
}
