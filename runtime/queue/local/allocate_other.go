//go:build !linux

package local

import "os"

// allocate gives the blocks of a range to the file, which grows to hold it. Nothing may be there yet.
func allocate(file *os.File, offset, bytes int64) error { return writeZeros(file, offset, bytes) }
