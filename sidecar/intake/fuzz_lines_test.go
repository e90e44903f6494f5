package intake

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzLines cuts any bytes into lines: nothing is lost, added or joined, whatever pieces they come in, and no line is over the limit.
func FuzzLines(f *testing.F) {
	for _, body := range []string{
		"", "\n", "\r\n", "a", "a\n", "a\nb", "a\r\nb\r\n", "\n\na\n\n", "a\rb\n", "\xff\n\x00", "{}\n{\"specversion\":\"1.0\"}\n", "ä\n€",
		strings.Repeat("x", 100) + "\n" + strings.Repeat("y", 101) + "\nz",
		strings.Repeat("x", lineBuffer) + "\n" + strings.Repeat("y", lineBuffer-1) + "\nz", strings.Repeat("x", 5*lineBuffer),
		strings.Repeat("x", lineBuffer-1) + "\r\n", strings.Repeat("\n", 300),
	} {
		f.Add([]byte(body), uint16(100), false)
		f.Add([]byte(body), uint16(lineBuffer), true)
		f.Add([]byte(body), uint16(3*lineBuffer), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, limit uint16, slow bool) {
		var source io.Reader = bytes.NewReader(body)
		if slow {
			source = iotest.HalfReader(source)
		}
		const most = 4 * lineBuffer
		grown := 0
		counted := &countedReads{Reader: source}
		reader := newLines(counted, int(limit), most, func() error { grown++; return nil })
		want := bytes.Split(body, []byte("\n"))
		if len(want[len(want)-1]) == 0 {
			want = want[:len(want)-1] // the end of the last line, not another one
		}
		for n, whole := range want {
			whole = bytes.TrimSuffix(whole, []byte("\r"))
			before, ready := counted.reads, reader.ready()
			line, err := reader.next()
			switch {
			case ready && counted.reads != before:
				t.Fatalf("line %d was not there", n)
			case errors.Is(err, errEndless):
				if len(whole)+len("\r\n") < most {
					t.Fatalf("line %d of %d bytes has no end", n, len(whole))
				}
				return
			case errors.Is(err, errLongLine):
				if len(whole) <= int(limit) {
					t.Fatalf("line %d of %d bytes is over %d", n, len(whole), limit)
				}
			case err != nil:
				t.Fatalf("line %d: %v", n, err)
			case !bytes.Equal(line, whole):
				t.Fatalf("line %d is %q, want %q", n, line, whole)
			case len(line) > int(limit):
				t.Fatalf("line %d of %d bytes is not over %d", n, len(line), limit)
			case len(line) > lineBuffer && grown == 0:
				t.Fatalf("line %d of %d bytes asked for no room", n, len(line))
			}
		}
		if line, err := reader.next(); !errors.Is(err, io.EOF) {
			t.Fatalf("behind the last line: %q, %v", line, err)
		}
	})
}

// countedReads counts how often somebody reads.
type countedReads struct {
	io.Reader
	reads int
}

func (c *countedReads) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

// A broken stream ends with its error, and half a line is none.
func TestHalfALineIsNone(t *testing.T) {
	reader := newLines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(io.ErrUnexpectedEOF)), 10, 100, func() error { return nil })
	if line, err := reader.next(); string(line) != "a" || err != nil {
		t.Errorf("%q %v", line, err)
	}
	if line, err := reader.next(); line != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q %v", line, err)
	}
}

// Without room for a long line there is no line.
func TestNoRoomForALongLine(t *testing.T) {
	full := errors.New("full")
	reader := newLines(strings.NewReader("a\n"+strings.Repeat("x", 2*lineBuffer)), 10*lineBuffer, 100*lineBuffer, func() error { return full })
	if line, err := reader.next(); string(line) != "a" || err != nil {
		t.Errorf("%q %v", line, err)
	}
	if line, err := reader.next(); line != nil || !errors.Is(err, full) {
		t.Errorf("%q %v", line, err)
	}
}
