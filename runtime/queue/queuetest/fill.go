package queuetest

import (
	"os"
	"path/filepath"
	"testing"
)

// Fill takes what is left of the volume of a directory, until release gives it back.
func Fill(t testing.TB, dir string) (release func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size >= 512; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
