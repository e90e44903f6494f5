package delivery

// heap is a binary min-heap whose items know their own index, so that any of them can leave or move in O(log n).
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	// moved tells an item its index, -1 when it leaves.
	moved func(item T, index int)
}

func (h *heap[T]) len() int { return len(h.items) }

// peek returns the least item; the heap must not be empty.
func (h *heap[T]) peek() T { return h.items[0] }

// second is the index of the item that would be the least without the first, -1 if there is none.
func (h *heap[T]) second() int {
	switch {
	case len(h.items) < 2:
		return -1
	case len(h.items) > 2 && h.less(h.items[2], h.items[1]):
		return 2
	}
	return 1
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	h.moved(item, len(h.items)-1)
	h.up(len(h.items) - 1)
}

func (h *heap[T]) pop() T {
	item := h.items[0]
	h.remove(0)
	return item
}

func (h *heap[T]) remove(i int) {
	last := len(h.items) - 1
	item := h.items[i]
	h.swap(i, last)
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	if i < last {
		h.fix(i)
	}
	h.moved(item, -1)
}

// fix restores the order after the key of item i changed.
func (h *heap[T]) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *heap[T]) swap(i, j int) {
	if i == j {
		return
	}
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.moved(h.items[i], i)
	h.moved(h.items[j], j)
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap[T]) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], h.items[i]) {
			break
		}
		h.swap(i, child)
		i = child
	}
	return i > start
}
