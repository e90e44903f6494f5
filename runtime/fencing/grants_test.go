package fencing

import (
	"crypto/sha256"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func hashOf(n int) [sha256.Size]byte { return sha256.Sum256([]byte(strconv.Itoa(n))) }

func TestGrantsAreWrittenSeldomAndDroppedInTime(t *testing.T) {
	var told []time.Duration
	g := grants{changed: func(within time.Duration) { told = append(told, within) }, at: map[[sha256.Size]byte]time.Time{}}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 20 { // a submitter at work is confirmed every half a minute
		g.given(hashOf(1), start.Add(time.Duration(i)*30*time.Second))
	}
	if want := []time.Duration{recordNews, recordNews}; !cmp.Equal(told, want) {
		t.Errorf("ten minutes of confirmations are told as %v, want %v", told, want)
	}
	g.given(hashOf(2), start)
	g.withdrawn(hashOf(2))
	g.withdrawn(hashOf(3)) // never given
	if want := []time.Duration{recordNews, recordNews, recordNews, recordDeletions}; !cmp.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	if kept := g.kept(start.Add(accessTolerance)); len(kept) != 1 || !kept[0].At.Equal(start.Add(5*time.Minute)) {
		t.Errorf("kept %v, want what was confirmed at five minutes", kept)
	}
	if kept := g.kept(start.Add(accessTolerance + 5*time.Minute)); len(kept) != 0 || len(g.at) != 0 {
		t.Errorf("kept %v and %d in memory after their hour", kept, len(g.at))
	}
}

func TestTheNewestGrantsAreKept(t *testing.T) {
	g := grants{changed: func(time.Duration) {}, at: map[[sha256.Size]byte]time.Time{}}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range mostGrants + 10 {
		g.given(hashOf(i), start.Add(time.Duration(i)*time.Second))
	}
	kept := g.kept(start.Add(mostGrants * time.Second))
	if len(kept) != mostGrants || len(g.at) != mostGrants {
		t.Fatalf("kept %d, and %d in memory, want %d", len(kept), len(g.at), mostGrants)
	}
	if first, _ := kept[0].key(); first != hashOf(mostGrants+9) {
		t.Error("the newest is not the first")
	}
	if _, there := g.at[hashOf(9)]; there {
		t.Error("the tenth oldest is still there")
	}
	if !cmp.Equal(kept, g.kept(start.Add(mostGrants*time.Second))) {
		t.Error("the same grants are not kept in the same order")
	}
}

func TestABadKeyIsNoGrant(t *testing.T) {
	for _, text := range []string{"", "xy", "ab", "zz" + grant{}.Key} {
		if _, ok := (grant{Key: text}).key(); ok {
			t.Errorf("%q is taken for a hash", text)
		}
	}
}
