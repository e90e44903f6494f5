package local

import "io"

// writeZeros is allocate for file systems that know no other way. Nothing may be there yet.
func writeZeros(file io.WriterAt, offset, bytes int64) error {
	zeros := make([]byte, 1<<20)
	for end := offset + bytes; offset < end; {
		n, err := file.WriteAt(zeros[:min(int64(len(zeros)), end-offset)], offset)
		if err != nil {
			return err
		}
		offset += int64(n)
	}
	return nil
}
