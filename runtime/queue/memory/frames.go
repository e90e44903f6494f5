package memory

// perFrame is how many members a frame has, a power of two.
const perFrame = 1 << frameBits

const frameBits = 7

// place names a member of a frame in 32 bits without a pointer, so that a garbage collection has nothing to follow where millions of places
// are kept. Zero is no place.
type place uint32

func (p place) frame() uint32 { return uint32(p >> frameBits) }

func (p place) member() int { return int(p & (perFrame - 1)) }

func placeOf(frame uint32, member int) place { return place(frame<<frameBits) | place(member) }

// frames numbers things from 1, and uses the numbers of those that are gone again.
type frames[T any] struct {
	all  []*T
	free []uint32
}

// add returns the number of frame.
func (f *frames[T]) add(frame *T) uint32 {
	if n := len(f.free); n > 0 {
		number := f.free[n-1]
		f.free, f.all[number] = f.free[:n-1], frame
		return number
	}
	if len(f.all) == 0 {
		f.all = append(f.all, nil)
	}
	if len(f.all) >= 1<<(32-frameBits) {
		panic("memory queue: more than four billion ids at a time")
	}
	f.all = append(f.all, frame)
	return uint32(len(f.all) - 1)
}

func (f *frames[T]) at(number uint32) *T { return f.all[number] }

func (f *frames[T]) drop(number uint32) {
	f.all[number] = nil
	if len(f.free)+2 == len(f.all) { // that was the last one
		f.all, f.free = nil, nil
		return
	}
	f.free = append(f.free, number)
}
