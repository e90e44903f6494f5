package main

import (
	"path/filepath"
	"testing"
)

// A run that goes on tries again what was not found, or was found at another commit: a survivor does not pass by being tried twice.
func TestOnlyWhatWasFoundIsNotTriedAgain(t *testing.T) {
	page := filepath.Join(t.TempDir(), "mutants.md")
	note := func(commit, number string, v verdict) {
		t.Helper()
		r, err := openRecord(page, commit)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.note(mutant{number: number, title: "a bug"}, v); err != nil {
			t.Fatal(err)
		}
	}
	note("old", "001", verdict{found: true, by: "I-1", seeds: 3})
	note("new", "002", verdict{found: true, by: "I-1", seeds: 3})
	note("new", "003", verdict{by: "nothing", seeds: 6000})
	note("new", "004", verdict{err: filepath.ErrBadPattern})
	r, err := openRecord(page, "new")
	if err != nil {
		t.Fatal(err)
	}
	for number, want := range map[string]bool{"001": false, "002": true, "003": false, "004": false, "005": false} {
		if got := r.found(mutant{number: number}); got != want {
			t.Errorf("%s found: %v, want %v", number, got, want)
		}
	}
}
