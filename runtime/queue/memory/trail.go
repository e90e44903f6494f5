package memory

import (
	"cmp"
	"slices"

	"github.com/workpulling/workpulling/runtime/queue"
)

// trail keeps the newest queue.MaxAuditLines audit lines.
type trail struct {
	lines []queue.AuditLine
	last  uint64
}

func (t *trail) add(line queue.AuditLine) {
	t.last++
	line.Number = t.last
	t.lines = append(t.lines, line)
	t.lines = t.lines[max(0, len(t.lines)-queue.MaxAuditLines):]
}

func (t *trail) list(after uint64, limit int) []queue.AuditLine {
	start, found := slices.BinarySearchFunc(t.lines, after, func(l queue.AuditLine, n uint64) int { return cmp.Compare(l.Number, n) })
	if found {
		start++
	}
	rest := t.lines[start:]
	return slices.Clone(rest[:min(max(limit, 0), len(rest))])
}
