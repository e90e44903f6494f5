//go:build !linux

package running

import "os"

// reserve takes room for a new file.
func reserve(file *os.File, room int) error { return fill(file, room) }
