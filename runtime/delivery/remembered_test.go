package delivery

import (
	"fmt"
	"slices"
	"testing"
)

func TestRememberedKeepsTheLatest(t *testing.T) {
	var r remembered
	job := func(seq int64) rememberedJob { return rememberedJob{identity: identity{storeSeq: seq}} }
	want := func(what string, ids ...string) {
		t.Helper()
		if got := slices.Sorted(mapsKeys(r.jobs)); !slices.Equal(got, ids) {
			t.Fatalf("%s: %v, want %v", what, got, ids)
		}
	}
	// What was forgotten and is remembered anew is the newest, not the oldest.
	r.add("a", job(1), 3)
	r.forget("a", 1)
	r.add("a", job(1), 3)
	r.add("b", job(2), 3)
	r.add("c", job(3), 3)
	want("three", "a", "b", "c")
	r.add("a", job(1), 3)
	r.add("d", job(4), 3)
	want("the oldest goes", "a", "c", "d")
	r.forget("c", 4)
	want("another job of that id stays", "a", "c", "d")
	r.add("e", job(5), 3)
	want("the oldest goes again", "a", "d", "e")
	for i := range 1000 {
		id := fmt.Sprint("x", i%2)
		r.add(id, job(int64(i)), 3)
		r.forget(id, int64(i))
	}
	if r.order.len() > 6 {
		t.Fatalf("%d places for %d jobs", r.order.len(), len(r.jobs))
	}
}
