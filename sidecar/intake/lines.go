package intake

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var (
	// errLongLine: the line is over the limit and was skipped; the next one can be read.
	errLongLine = errors.New("intake: a line is too long")
	// errEndless: the line is so long that nobody looks for its end.
	errEndless = errors.New("intake: a line has no end")
)

// lineBuffer is what a stream holds at the least, in bytes: a shorter line costs no more.
const lineBuffer = 16 << 10

// lines reads a stream line by line and holds one line at a time, cut off at limit.
type lines struct {
	buffer *bufio.Reader
	// limit is the longest line in bytes, without its end; most is how long one is read at all.
	limit, most int
	// grow is called before a line takes more than the buffer. Its error ends the reading.
	grow func() error
}

func newLines(body io.Reader, limit, most int, grow func() error) *lines {
	return &lines{buffer: bufio.NewReaderSize(body, lineBuffer), limit: limit, most: most, grow: grow}
}

// ready tells whether the next line has arrived, so that next does not wait for it.
func (l *lines) ready() bool {
	arrived, _ := l.buffer.Peek(l.buffer.Buffered())
	return bytes.IndexByte(arrived, '\n') >= 0
}

// next returns the next line without its end, and io.EOF behind the last one, which needs none.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for total := 0; ; {
		part, err := l.buffer.ReadSlice('\n')
		total += len(part)
		ended := err == nil || errors.Is(err, io.EOF) && total > 0
		switch {
		case !ended && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case total > l.most:
			return nil, errEndless
		case total > l.limit+len("\r\n"):
			line = nil
		case line == nil && !ended:
			if err := l.grow(); err != nil {
				return nil, err
			}
			line = append(make([]byte, 0, 2*len(part)), part...)
		default:
			line = append(line, part...)
		}
		if !ended {
			continue
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if total > l.limit+len("\r\n") || len(line) > l.limit {
			return nil, errLongLine
		}
		return line, nil
	}
}
