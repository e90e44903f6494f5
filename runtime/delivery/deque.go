package delivery

// deque is a growable ring addressed by a running number: the first item ever pushed has number `first` as set by reset,
// and an item keeps its number for life.
type deque[T any] struct {
	ring  []T
	first int64 // number of the oldest item
	count int
}

func (d *deque[T]) len() int { return d.count }

// end is the number that the next item gets.
func (d *deque[T]) end() int64 { return d.first + int64(d.count) }

// reset empties the deque and numbers the next item first.
func (d *deque[T]) reset(first int64) { *d = deque[T]{first: first} }

func (d *deque[T]) slot(number int64) int {
	return int(uint64(number) % uint64(len(d.ring)))
}

func (d *deque[T]) at(number int64) T { return d.ring[d.slot(number)] }

func (d *deque[T]) set(number int64, item T) { d.ring[d.slot(number)] = item }

func (d *deque[T]) has(number int64) bool { return number >= d.first && number < d.end() }

func (d *deque[T]) push(item T) {
	if d.count == len(d.ring) {
		d.resize(max(8, 2*len(d.ring)))
	}
	d.count++
	d.ring[d.slot(d.end()-1)] = item
}

// pop removes the oldest item; the deque must not be empty.
func (d *deque[T]) pop() T {
	var zero T
	i := d.slot(d.first)
	item := d.ring[i]
	d.ring[i] = zero
	d.first++
	d.count--
	if len(d.ring) > 64 && d.count < len(d.ring)/4 {
		d.resize(len(d.ring) / 2)
	}
	return item
}

func (d *deque[T]) resize(size int) {
	ring := make([]T, size)
	for n := d.first; n < d.end(); n++ {
		ring[uint64(n)%uint64(size)] = d.at(n)
	}
	d.ring = ring
}
