package memory

// ShareHashes leaves no more than the given bits of the hashes of ids. With none all ids collide.
func ShareHashes(q *Queue, bits uint32) { q.rows.hashed = bits }
