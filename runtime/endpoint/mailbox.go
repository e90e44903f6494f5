package endpoint

import "sync"

// mailbox gathers what many goroutines have for one loop, so that the loop is woken once for all of it.
type mailbox[T any] struct {
	mu     sync.Mutex
	items  []T
	spare  []T // emptied by the taker, to be filled again
	closed bool
}

// put adds an item. first says that the box was empty: its caller tells the loop. open is false once the box is closed, and then the item
// is not in it.
func (b *mailbox[T]) put(items ...T) (first, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false, false
	}
	first = len(b.items) == 0
	b.items = append(b.items, items...)
	return first, true
}

// take empties the box. What it returns is the taker's until the next take.
func (b *mailbox[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.spare)
	taken := b.items
	b.items, b.spare = b.spare[:0], taken
	return taken
}

// close takes what is left, and lets nothing in any more.
func (b *mailbox[T]) close() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	left := b.items
	b.items, b.spare = nil, nil
	return left
}
