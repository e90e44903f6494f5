package standalone

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestOutputKeepsLinesWhole(t *testing.T) {
	var out bytes.Buffer
	screen := &Screen{Out: &out}
	o := screen.output("a-0")
	for _, part := range []string{"one\ntw", "o\r\n", "\n", strings.Repeat("x", maxLine+1), "end"} {
		if n, err := o.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, len(part), err)
		}
	}
	o.flush()
	want := "[a-0] one\n[a-0] two\n[a-0] \n[a-0] " + strings.Repeat("x", maxLine+1) + "\n[a-0] end\n"
	if out.String() != want {
		t.Errorf("%d bytes of output, want %d:\n%.100q", out.Len(), len(want), out.String())
	}
}

func TestScreenOfALog(t *testing.T) {
	var out bytes.Buffer
	screen := &Screen{Out: &out}
	status := Status{Flow: "f", State: stateRunning, Workers: 2}
	screen.show([]Status{status})
	screen.show([]Status{status}) // nothing has changed
	status.Confirmed = 7
	screen.show([]Status{status})
	if got := strings.Count(out.String(), "\n"); got != 2 || !strings.Contains(out.String(), "7 confirmed") {
		t.Errorf("%d lines:\n%s", got, &out)
	}
}

func TestScreenOfATerminal(t *testing.T) {
	var out bytes.Buffer
	screen := &Screen{Out: &out, Live: true, Width: func() int { return 10 }}
	screen.show([]Status{{Flow: "f"}, {Flow: "g"}})
	out.Reset()
	screen.say("hello")
	if got := out.String(); got != "\x1b[2A\r\x1b[Jhello\nf: , 0 st…\ng: , 0 st…\n" {
		t.Errorf("%q", got)
	}
}

func TestScreenOfAProgram(t *testing.T) {
	var out, machine bytes.Buffer
	screen := &Screen{Out: &out, Machine: &machine, Quiet: true}
	screen.say("hello")
	screen.show([]Status{{Time: time.Unix(1, 0).UTC(), Flow: "f", State: stateRunning, Confirmed: 3}})
	var got map[string]any
	if err := json.Unmarshal(machine.Bytes(), &got); err != nil || got["flow"] != "f" || got["confirmed"] != 3.0 || got["deadLetters"] != 0.0 {
		t.Errorf("%s: %v", machine.Bytes(), err)
	}
	if out.Len() > 0 {
		t.Errorf("quiet, and said %q", out.String())
	}
}

func TestPace(t *testing.T) {
	var p pace
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	for _, step := range []struct {
		second int
		count  uint64
		want   float64
	}{{0, 100, 0}, {1, 110, 10}, {2, 120, 10}, {20, 120, 0}, {21, 150, 30.0 / 19}, {26, 150, 0}, {27, 3, 0}} {
		got := p.add(at(step.second), step.count)
		if got < step.want-0.01 || got > step.want+0.01 {
			t.Errorf("at %d: %f, want %f", step.second, got, step.want)
		}
	}
}

func TestStillness(t *testing.T) {
	var s stillness
	running := func(stored int, cursor int64) []Status {
		return []Status{{Flow: "f", State: stateRunning, Stored: stored, cursor: cursor, quiet: true}}
	}
	for i, step := range []struct {
		second   int
		statuses []Status
		want     bool
	}{
		{0, running(0, 0), false},
		{4, running(0, 0), false},
		{6, running(0, 1), false}, // a job has come and gone
		{7, running(1, 2), false},
		{8, running(0, 2), false},
		{11, running(0, 2), false},
		{13, []Status{{Flow: "f", State: stateLoading}}, false},
		{14, running(0, 2), false},
		{19, running(0, 2), true},
	} {
		if got := s.after(5*time.Second, time.Unix(int64(step.second), 0), step.statuses); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}
