package standalone

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Screen shows a run to a person, and to a program if one listens.
type Screen struct {
	// Out gets what is meant for people: what the run says, the output of apps, and the status unless Machine is set.
	Out io.Writer
	// Machine, where it is set, gets one JSON object a flow and second.
	Machine io.Writer
	// Live keeps the status in the last lines of a terminal; without it the status is printed anew when it has changed.
	Live bool
	// Width is the width of the terminal, for Live (80 columns).
	Width func() int
	// Quiet leaves out the status and all that is said but warnings.
	Quiet bool

	mu     sync.Mutex
	status []string // what is shown last
}

// every is how often the status is due.
func (s *Screen) every() time.Duration {
	switch {
	case s.Machine != nil:
		return time.Second
	case s.Live:
		return 250 * time.Millisecond
	}
	return 2 * time.Second
}

// say prints a line, unless the screen is quiet.
func (s *Screen) say(format string, args ...any) {
	if !s.Quiet {
		s.warn(format, args...)
	}
}

// warn prints a line.
func (s *Screen) warn(format string, args ...any) {
	s.print(fmt.Sprintf(format, args...) + "\n")
}

// print puts text, which ends with a line, above the status.
func (s *Screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.erase() + text + s.draw())
}

func (s *Screen) write(text string) { _, _ = io.WriteString(s.Out, text) } // a terminal that is gone ends nothing

// erase is what removes the live status from the terminal.
func (s *Screen) erase() string {
	if !s.Live || len(s.status) == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", len(s.status))
}

// draw is what shows it again.
func (s *Screen) draw() string {
	if !s.Live || len(s.status) == 0 {
		return ""
	}
	return strings.Join(s.status, "\n") + "\n"
}

// show shows the status of all flows.
func (s *Screen) show(statuses []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Machine != nil {
		encoder := json.NewEncoder(s.Machine)
		for _, status := range statuses {
			_ = encoder.Encode(status) // a reader that is gone ends nothing
		}
		return
	}
	if s.Quiet {
		return
	}
	lines := make([]string, len(statuses))
	for i, status := range statuses {
		lines[i] = line(status)
		if s.Live {
			lines[i] = clip(lines[i], s.width())
		}
	}
	before := s.status
	if slices.Equal(lines, before) {
		return
	}
	if s.Live {
		text := s.erase()
		s.status = lines
		s.write(text + s.draw())
		return
	}
	s.status = lines
	for i, text := range lines {
		if i >= len(before) || before[i] != text {
			s.write(text + "\n")
		}
	}
}

func (s *Screen) width() int {
	if s.Width != nil {
		if width := s.Width(); width > 0 {
			return width
		}
	}
	return 80
}

func clip(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:max(width-1, 0)]) + "…"
	}
	return text
}

// line is the status of one flow for people.
func line(s Status) string {
	text := fmt.Sprintf("%s: %s, %d stored, %d in flight, %d confirmed, %d dead letters, %.0f jobs/s, %d of %d workers ready",
		s.Flow, strings.ToLower(s.State), s.Stored, s.InFlight, s.Confirmed, s.DeadLetters, s.JobsPerSecond, s.WorkersReady, s.Workers)
	if s.Lost > 0 {
		text += fmt.Sprintf(", %d lost with the memory of earlier runs", s.Lost)
	}
	if s.Message != "" {
		text += ": " + strings.ReplaceAll(s.Message, "\n", " ")
	}
	return text
}

// maxLine is the longest line of an app that is kept together.
const maxLine = 16 << 10

// output is the output of one app, whole lines with its name before each.
type output struct {
	screen *Screen
	prefix string

	mu   sync.Mutex
	line []byte // what has no end yet
}

func (s *Screen) output(name string) *output { return &output{screen: s, prefix: "[" + name + "] "} }

// Write implements io.Writer. It never fails, for an app must not end for the sake of its output.
func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out strings.Builder
	for rest := data; len(rest) > 0; {
		text, after, whole := bytes.Cut(rest, []byte("\n"))
		o.line = append(o.line, text...)
		if whole || len(o.line) >= maxLine {
			out.WriteString(o.prefix + strings.TrimSuffix(string(o.line), "\r") + "\n")
			o.line = o.line[:0]
		}
		rest = after
	}
	if out.Len() > 0 {
		o.screen.print(out.String())
	}
	return len(data), nil
}

// flush prints what has no end.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.line) > 0 {
		o.screen.print(o.prefix + string(o.line) + "\n")
		o.line = nil
	}
}

// Log is where the runtime logs to.
func (s *Screen) Log() io.Writer { return &output{screen: s} }
