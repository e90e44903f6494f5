package trial

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxJobs and MaxWorkers are what a ledger has room for.
const (
	MaxJobs    = 1 << 27
	MaxWorkers = 512
)

// Phase is how far a trial has come.
type Phase uint32

const (
	Preparing Phase = iota
	Filling         // producers submit; workers that come later are not there
	Running         // producers submit
	Ending          // producers have to stop
)

// Ledger is the account of a trial: memory that all its processes share, so that keeping it costs every system the same few nanoseconds a
// job, and that outlives any of them.
type Ledger struct {
	memory []byte
	head   *head
	seen   []uint64 // one bit a job
}

type head struct {
	phase     atomic.Uint32
	_         [4]byte
	from      atomic.Int64 // see MeasureFrom
	_         [48]byte
	submitted atomic.Uint64 // numbers given out
	_         [56]byte
	accepted  atomic.Uint64
	ended     atomic.Uint32 // the producer submits no more
	_         [52]byte
	corrupt   atomic.Uint64 // handled with bytes that nobody sent
	repeated  atomic.Uint64 // handled once more
	_         [48]byte
	handled   [MaxWorkers]struct {
		n atomic.Uint64
		_ [56]byte
	}
}

const ledgerBytes = int(unsafe.Sizeof(head{})) + MaxJobs/8

// OpenLedger opens the file of a ledger, and makes it where it is missing. Memory is taken as jobs come.
func OpenLedger(path string) (*Ledger, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", err)
	}
	defer file.Close()
	if err := file.Truncate(int64(ledgerBytes)); err != nil {
		return nil, fmt.Errorf("making room for the ledger: %w", err)
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, ledgerBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the ledger: %w", err)
	}
	l := &Ledger{memory: memory, head: (*head)(unsafe.Pointer(&memory[0]))}
	l.seen = unsafe.Slice((*uint64)(unsafe.Pointer(&memory[unsafe.Sizeof(head{})])), MaxJobs/64)
	return l, nil
}

// Close gives the memory back; the file stays.
func (l *Ledger) Close() error { return unix.Munmap(l.memory) }

// Phase is how far the trial has come.
func (l *Ledger) Phase() Phase { return Phase(l.head.phase.Load()) }

// SetPhase tells all processes.
func (l *Ledger) SetPhase(p Phase) { l.head.phase.Store(uint32(p)) }

// MeasureFrom says from when on times are measured, on the clock of Monotonic.
func (l *Ledger) MeasureFrom(at int64) { l.head.from.Store(at) }

// Measures says whether times are measured at a moment, and for how long they are by then.
func (l *Ledger) Measures(at int64) (since time.Duration, ok bool) {
	from := l.head.from.Load()
	return time.Duration(at - from), from != 0 && at >= from
}

// Take gives out n numbers and returns the first; false means that there are no more.
func (l *Ledger) Take(n int) (uint64, bool) {
	first := l.head.submitted.Add(uint64(n)) - uint64(n)
	if first+uint64(n) > MaxJobs {
		l.head.submitted.Add(-uint64(n))
		return 0, false
	}
	return first, true
}

// Accept counts jobs that the system has accepted.
func (l *Ledger) Accept(n int) { l.head.accepted.Add(uint64(n)) }

// EndProducing says that nothing will be submitted any more.
func (l *Ledger) EndProducing() { l.head.ended.Store(1) }

// Ended says whether that was said.
func (l *Ledger) Ended() bool { return l.head.ended.Load() == 1 }

// Handle notes that a worker was given a job. ok says that its bytes were right.
func (l *Ledger) Handle(worker int, number uint64, ok bool) {
	if !ok || number >= MaxJobs {
		l.head.corrupt.Add(1)
		return
	}
	bit := uint64(1) << (number % 64)
	if atomic.OrUint64(&l.seen[number/64], bit)&bit != 0 {
		l.head.repeated.Add(1)
		return
	}
	l.head.handled[worker%MaxWorkers].n.Add(1)
}

// Submitted is how many numbers were given out so far.
func (l *Ledger) Submitted() uint64 { return l.head.submitted.Load() }

// Accepted is how many jobs were accepted so far.
func (l *Ledger) Accepted() uint64 { return l.head.accepted.Load() }

// Handled is how many different jobs were handled so far.
func (l *Ledger) Handled() (n uint64) {
	for i := range l.head.handled {
		n += l.head.handled[i].n.Load()
	}
	return n
}

// Spread is how many jobs the least and the most loaded of so many workers have handled.
func (l *Ledger) Spread(workers int) (least, most uint64) {
	for i := range min(workers, MaxWorkers) {
		n := l.head.handled[i].n.Load()
		if i == 0 || n < least {
			least = n
		}
		most = max(most, n)
	}
	return least, most
}

// Verify says what is wrong with what was handled; nil means that every accepted job was handled once, with its own bytes, and nothing else.
func (l *Ledger) Verify() error {
	submitted, accepted, handled := l.Submitted(), l.Accepted(), l.Handled()
	switch corrupt, repeated := l.head.corrupt.Load(), l.head.repeated.Load(); {
	case corrupt > 0:
		return fmt.Errorf("%d jobs were handled with bytes that nobody sent", corrupt)
	case repeated > 0:
		return fmt.Errorf("%d jobs were handled more than once", repeated)
	case accepted != submitted:
		return fmt.Errorf("%d jobs were submitted and %d accepted", submitted, accepted)
	}
	for number := range submitted {
		if atomic.LoadUint64(&l.seen[number/64])&(1<<(number%64)) == 0 {
			return fmt.Errorf("%d jobs were accepted and %d handled; job %d is the first that was lost", accepted, handled, number)
		}
	}
	if handled != accepted {
		return fmt.Errorf("%d jobs were accepted and %d handled: some that nobody sent", accepted, handled)
	}
	return nil
}
