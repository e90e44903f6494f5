// Command sim runs many seeds of runtime/simulation and says what happened in them. It exits with 1 on the first violation,
// after printing the end of its trace and the command that repeats it.
//
// Invariant: what happens in a seed depends on the seed alone, not on the number of workers or the machine.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/workpulling/workpulling/runtime/simulation"
)

// enoughSeeds is how many runs over all profiles must have met every kind of fault at least once.
const enoughSeeds = 1000

type arguments struct {
	seeds, start uint64
	seed         string
	profile      string
	verbose      bool
	parallel     int
	lines        int
	quiet        bool
	record       string
	classes      string
	commit       string
}

func main() {
	debug.SetGCPercent(800) // a world is a few megabytes, and none outlives its seed
	var a arguments
	flag.Uint64Var(&a.seeds, "seeds", 1000, "how many seeds to run")
	flag.Uint64Var(&a.start, "start", 1, "the first seed")
	flag.StringVar(&a.seed, "seed", "", "run this seed alone and print its trace if it fails, or in any case with -v")
	flag.StringVar(&a.profile, "profile", "", "force a profile instead of letting the seed choose")
	flag.BoolVar(&a.verbose, "v", false, "with -seed: print the whole trace")
	flag.IntVar(&a.parallel, "parallel", runtime.GOMAXPROCS(0), "how many seeds to run at a time")
	flag.StringVar(&a.classes, "classes", "", "write the table of misfortunes into this file, between its markers, and run nothing")
	flag.StringVar(&a.record, "record", "", "go on after the seeds that this file records, and record those that break nothing")
	flag.StringVar(&a.commit, "commit", "?", "with -record: the commit to name")
	flag.BoolVar(&a.quiet, "quiet", false, "show no progress")
	flag.IntVar(&a.lines, "lines", 200, "how many lines of trace to print of a violation")
	flag.Parse()
	os.Exit(run(a))
}

func run(a arguments) int {
	if a.classes != "" {
		if err := writeClasses(a.classes); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		return 0
	}
	if a.seeds == 0 && a.seed == "" {
		fmt.Fprintln(os.Stderr, "no seeds to run: -seeds is 0")
		return 2
	}
	var options simulation.Options
	if a.profile != "" {
		p, ok := simulation.ProfileNamed(a.profile)
		if !ok {
			fmt.Fprintf(os.Stderr, "unknown profile %q; there are:\n", a.profile)
			for _, p := range simulation.Profiles {
				fmt.Fprintf(os.Stderr, "  %s\n", p.Name)
			}
			return 2
		}
		options.Profile = &p
	}
	if a.seed != "" {
		seed, err := strconv.ParseUint(a.seed, 10, 64)
		if err != nil {
			fmt.Fprintf(os.Stderr, "seed: %v\n", err)
			return 2
		}
		return one(seed, options, a)
	}
	if a.record != "" {
		return sweep(a.record, a.commit, options, a)
	}
	began := time.Now()
	total, failed := many(options, a)
	summary(total, time.Since(began))
	if failed != nil {
		fmt.Println()
		return report(*failed, options, a)
	}
	if missing := total.Missing(); options.Profile == nil && a.seeds >= enoughSeeds && len(missing) > 0 {
		fmt.Printf("\nnever happened in %d seeds, so nothing was proven about it: %v\n", a.seeds, missing)
		return 1
	}
	return 0
}

// report runs a seed that failed again, with its trace, and says how to repeat that.
func report(failed simulation.Result, options simulation.Options, a arguments) int {
	one(failed.Seed, options, a)
	fmt.Printf("replay: make sim SEED=%d, or go run ./runtime/simulation/cmd/sim -seed %d", failed.Seed, failed.Seed)
	if a.profile != "" {
		fmt.Printf(" -profile %q", a.profile)
	}
	fmt.Println()
	return 1
}

// one runs one seed with its trace.
func one(seed uint64, options simulation.Options, a arguments) int {
	options.Trace = a.lines
	if a.verbose {
		options.Trace = 1 << 30
	}
	r := simulation.Run(seed, options)
	if r.Violation != nil || a.verbose {
		for _, line := range r.Trace {
			fmt.Println(line)
		}
	}
	fmt.Printf("seed %d, profile %q: %d steps, hash %016x\n", seed, r.Profile, r.Counts.Steps, r.Hash)
	if r.Violation != nil {
		fmt.Printf("VIOLATION %v\n", r.Violation)
		return 1
	}
	return 0
}

// many runs seeds in parallel until one fails.
func many(options simulation.Options, a arguments) (simulation.Counts, *simulation.Result) {
	var (
		next, done, stop atomic.Uint64
		mu               sync.Mutex
		total            simulation.Counts
		failed           *simulation.Result
		group            sync.WaitGroup
	)
	began := time.Now()
	for range max(1, a.parallel) {
		group.Go(func() {
			for stop.Load() == 0 {
				n := next.Add(1) - 1
				if n >= a.seeds {
					return
				}
				r := simulation.Run(a.start+n, options)
				done.Add(1)
				mu.Lock()
				total.Add(r.Counts)
				if r.Violation != nil && (failed == nil || r.Seed < failed.Seed) {
					failed = &r
					stop.Store(1)
				}
				mu.Unlock()
			}
		})
	}
	finished := make(chan struct{})
	if !a.quiet {
		go progress(&done, a.seeds, began, finished)
	}
	group.Wait()
	close(finished)
	return total, failed
}

func progress(done *atomic.Uint64, seeds uint64, began time.Time, finished <-chan struct{}) {
	ticker := time.NewTicker(3 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-finished:
			return
		case <-ticker.C:
			n := done.Load()
			rate := float64(n) / time.Since(began).Seconds()
			left := "?"
			if rate > 0 {
				left = time.Duration(float64(seeds-n) / rate * float64(time.Second)).Round(time.Second).String()
			}
			fmt.Fprintf(os.Stderr, "%d of %d seeds, %.0f a second, %s left\n", n, seeds, rate, left)
		}
	}
}

func summary(c simulation.Counts, took time.Duration) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintf(w, "seeds\t%d\tin %v, %.0f a second\n", c.Runs, took.Round(time.Millisecond), float64(c.Runs)/took.Seconds())
	fmt.Fprintf(w, "steps\t%d\t%d messages\n", c.Steps, c.Messages)
	fmt.Fprintf(w, "submissions\t%d\t%d stored, %d confirmed, %d lost by volatile queues\n", c.Submissions, c.Stored, c.Confirmed, c.Lost)
	fmt.Fprintf(w, "redelivered\t%d\t%d handlers ran again after a success, %d beside another run\n", c.Redelivered, c.DuplicateRuns, c.ConcurrentRuns)
	fmt.Fprintf(w, "adopted\t%d\t%d dead letters confirmed by a claim\n", c.Adopted, c.LettersClaimed)
	fmt.Fprintf(w, "loads\t%d\t\n", c.Reloads)
	fmt.Fprintln(w, "\t\t")
	for _, p := range simulation.Profiles {
		fmt.Fprintf(w, "profile %s\t%d\t\n", p.Name, c.Profiles[p.Name])
	}
	fmt.Fprintln(w, "\t\t")
	for f, n := range &c.Faults {
		fmt.Fprintf(w, "%v\t%d\t\n", simulation.Fault(f), n)
	}
}
