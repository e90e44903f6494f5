package intake_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/sidecar/intake"
)

const ndjson = "application/x-ndjson"

type lineAnswer struct {
	Line int
	jobAnswer
	Problem *problemBody
}

func eventLine(id, data string) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/s","type":"t","data":%q}`, id, data)
}

func (r reply) lines(t *testing.T) (answers []lineAnswer) {
	t.Helper()
	if r.status != 200 || r.header.Get("Content-Type") != ndjson {
		t.Fatalf("%d %s %s", r.status, r.header.Get("Content-Type"), r.body)
	}
	decoder := json.NewDecoder(strings.NewReader(r.body))
	for decoder.More() {
		var a lineAnswer
		if err := decoder.Decode(&a); err != nil {
			t.Fatalf("%v in %s", err, r.body)
		}
		answers = append(answers, a)
	}
	return answers
}

// told are the lines and statuses of answers, "1:201 2:400".
func told(answers []lineAnswer) string {
	var words []string
	for _, a := range answers {
		words = append(words, fmt.Sprintf("%d:%d", a.Line, a.Status))
		if a.Problem != nil && a.Problem.Status != a.Status {
			words = append(words, fmt.Sprintf("(its problem says %d)", a.Problem.Status))
		}
	}
	return strings.Join(words, " ")
}

func TestStreamAnswersEachLineInOrder(t *testing.T) {
	w := newWorld(t, nil)
	body := strings.Join([]string{
		eventLine("1", "a"),
		"",
		eventLine("1", "a"),     // a repeat
		eventLine("1", "other"), // its id with another body
		"{",
		`{"specversion":"1.0","id":"2","source":"/s","type":"t"}`,                               // without data
		eventLine("3", strings.Repeat("x", 2000)),                                               // too large a payload
		strings.Repeat("y", 100_000),                                                            // too long a line
		"{\"specversion\":\"1.0\",\"id\":\"\xff\",\"source\":\"/s\",\"type\":\"t\",\"data\":1}", // no UTF-8
		"  \t\r",
		eventLine("4", "b") + "\r",
		eventLine("5", "c"), // without a line's end
	}, "\n")
	answers := w.send("POST", jobs, body, "Content-Type", ndjson).lines(t)
	if want := "1:201 3:200 4:422 5:400 6:400 7:413 8:413 9:400 11:201 12:201"; told(answers) != want {
		t.Errorf("got  %s\nwant %s", told(answers), want)
	}
	if a := answers[0]; a.ID != "/s|1" || a.Sequence != 1 || a.State != "stored" || !a.New {
		t.Errorf("%+v", a)
	}
	if s := w.stats(); s.Accepted != 3 {
		t.Errorf("%d jobs stored, want 3", s.Accepted)
	}
	w.until("the receipts are acknowledged", func() bool {
		state, err := w.producer.Lookup(t.Context(), "/s|5")
		return err == nil && state.Accepted
	})
}

func TestStreamsThatAreNone(t *testing.T) {
	w := newWorld(t, nil)
	for _, body := range []string{"", "\n\n", " \r\n\t\n"} {
		if got := w.send("POST", jobs, body, "Content-Type", ndjson); got.status != 200 || got.body != "" {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
	}
	if got := w.send("POST", jobs, "x", "Content-Type", ndjson, "Content-Encoding", "gzip"); got.problem(t).Status != 415 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := w.send("POST", jobs+"?wait=done", "x", "Content-Type", ndjson); got.problem(t).Status != 400 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// conversation is a stream whose lines are sent one by one.
type conversation struct {
	t       *testing.T
	send    *io.PipeWriter
	done    chan struct{} // closed once there is a response, or none
	answer  *http.Response
	scanner *bufio.Scanner
	leave   context.CancelFunc
}

func (w *world) converse(t *testing.T, client *http.Client, address, query string) *conversation {
	t.Helper()
	body, send := io.Pipe()
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+jobs+query, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", ndjson)
	request.Header.Set("Authorization", "Bearer user:alice")
	c := &conversation{t: t, send: send, done: make(chan struct{}), leave: leave}
	go func() {
		defer close(c.done)
		response, err := client.Do(request) //nolint:bodyclose // the end of the test closes it
		if err == nil {
			c.answer = response
		}
	}()
	t.Cleanup(func() {
		leave()
		send.Close()
		if <-c.done; c.answer != nil {
			c.answer.Body.Close()
		}
	})
	return c
}

func (c *conversation) say(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c.send, line); err != nil {
			c.t.Fatal(err)
		}
	}
}

// hear returns the next answer, nil behind the last.
func (c *conversation) hear() *lineAnswer {
	c.t.Helper()
	if c.scanner == nil {
		if <-c.done; c.answer == nil {
			c.t.Fatal("no answer")
		}
		c.scanner = bufio.NewScanner(c.answer.Body)
	}
	if !c.scanner.Scan() {
		return nil
	}
	answer := new(lineAnswer)
	if err := json.Unmarshal(c.scanner.Bytes(), answer); err != nil {
		c.t.Fatalf("%v in %s", err, c.scanner.Bytes())
	}
	return answer
}

// hearStatus fails the test unless the next answer is this one.
func (c *conversation) hearStatus(line, status int) *lineAnswer {
	c.t.Helper()
	answer := c.hear()
	if answer == nil || answer.Line != line || answer.Status != status {
		c.t.Fatalf("got %+v, want line %d with %d", answer, line, status)
	}
	return answer
}

// Whoever sends line by line has each answer before the next line, over HTTP/1.1 and HTTP/2.
func TestStreamIsAConversation(t *testing.T) {
	for _, two := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", two), func(t *testing.T) {
			w := newWorld(t, nil)
			server := w.overTLS(t, two)
			c := w.converse(t, server.Client(), server.URL, "")
			for n := 1; n <= 3; n++ {
				c.say(eventLine(fmt.Sprint(n), "x"), "\n")
				c.hearStatus(n, 201)
			}
			c.send.Close()
			if end := c.hear(); end != nil {
				t.Errorf("behind the end: %+v", end)
			}
		})
	}
}

// A stream waits for credit, and goes on where it waited.
func TestStreamWaitsForRoom(t *testing.T) {
	w := newFullWorld(t)
	c := w.converse(t, w.server.Client(), w.server.URL, "")
	c.say(eventLine("1", "x"), "\n", eventLine("2", "x"), "\n", "{\n")
	w.until("the stream's jobs wait", func() bool { return w.stats().BacklogFull })
	w.work(confirm)
	for n, status := range []int{201, 201, 400} {
		c.hearStatus(n+1, status)
	}
}

// Patience ends; what is known already needs none.
func TestStreamWaitsForRoomUpToABound(t *testing.T) {
	w := newWorld(t, func(p *endpoint.ProducerOptions, o *intake.Options) {
		p.Config.BacklogJobs, p.Config.BacklogBytes = 1, 1<<30
		o.StreamPatience = 200 * time.Millisecond
	})
	answers := w.send("POST", jobs, eventLine("1", "x")+"\n"+eventLine("2", "x")+"\n"+eventLine("1", "x")+"\n", "Content-Type", ndjson).lines(t)
	if want := "1:201 2:429 3:200"; told(answers) != want {
		t.Fatalf("got %s, want %s", told(answers), want)
	}
	if answers[1].Problem.RetryAfterSeconds < 1 {
		t.Errorf("%+v", answers[1].Problem)
	}
}

func TestStreamWaitsForConfirmations(t *testing.T) {
	w := newWorld(t, nil)
	early := w.send("POST", jobs+"?wait=confirmed&timeout=50ms", eventLine("0", "x"), "Content-Type", ndjson).lines(t)
	if told(early) != "1:504" || early[0].State != "stored" || early[0].Problem.Instance != jobs+"/"+url.PathEscape("/s|0") {
		t.Errorf("nobody works: %+v %+v", early, early[0].Problem)
	}
	release := make(chan struct{})
	w.work(func(_ context.Context, d protocol.Delivery) endpoint.Result {
		switch string(d.Job.Payload) {
		case `"bad"`:
			return endpoint.Result{Outcome: protocol.Rejected, Reason: "makes no sense"}
		case `"slow"`:
			<-release
		}
		return endpoint.Result{Outcome: protocol.Confirmed}
	})
	c := w.converse(t, w.server.Client(), w.server.URL, "?wait=confirmed")
	c.say(eventLine("1", "x"), "\n")
	if a := c.hearStatus(1, 201); a.State != "confirmed" {
		t.Errorf("%+v", a)
	}
	c.say(eventLine("2", "bad"), "\n", eventLine("3", "slow"), "\n", eventLine("4", "x"), "\n", eventLine("0", "x"), "\n")
	c.hearStatus(2, 409)
	close(release)
	for _, want := range [][2]int{{3, 201}, {4, 201}, {5, 200}} {
		if a := c.hearStatus(want[0], want[1]); a.State != "confirmed" {
			t.Errorf("%+v", a)
		}
	}
}

// Who falls silent, in a line or between two, is told so and let go.
func TestSilentStreamEnds(t *testing.T) {
	for name, rest := range map[string]string{"between lines": "", "in a line": `{"specversion"`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *endpoint.ProducerOptions, o *intake.Options) { o.LineTimeout = 100 * time.Millisecond })
			c := w.converse(t, w.server.Client(), w.server.URL, "")
			c.say(eventLine("1", "x"), "\n", rest)
			c.hearStatus(1, 201)
			if a := c.hearStatus(2, 408); a.Problem.Type != intake.ProblemBase+"line-late" {
				t.Errorf("%+v", a.Problem)
			}
			if end := c.hear(); end != nil {
				t.Errorf("behind the end: %+v", end)
			}
		})
	}
}

// A byte now and then is no line.
func TestTricklingLineEnds(t *testing.T) {
	w := newWorld(t, func(_ *endpoint.ProducerOptions, o *intake.Options) { o.LineTimeout = 200 * time.Millisecond })
	c := w.converse(t, w.server.Client(), w.server.URL, "")
	trickle := make(chan struct{})
	go func() {
		defer close(trickle)
		for {
			if _, err := io.WriteString(c.send, "x"); err != nil {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}()
	c.hearStatus(1, 408)
	if end := c.hear(); end != nil {
		t.Errorf("behind the end: %+v", end)
	}
	c.leave()
	c.send.Close()
	<-trickle
}

func TestLongStreamEnds(t *testing.T) {
	w := newWorld(t, func(_ *endpoint.ProducerOptions, o *intake.Options) { o.StreamTime = 300 * time.Millisecond })
	c := w.converse(t, w.server.Client(), w.server.URL, "")
	c.say(eventLine("1", "x"), "\n")
	c.hearStatus(1, 201)
	c.hearStatus(2, 503)
	if end := c.hear(); end != nil {
		t.Errorf("behind the end: %+v", end)
	}
}

// lettersReader is a line without end.
type lettersReader struct{}

func (lettersReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestLineWithoutEndEndsTheStream(t *testing.T) {
	w := newWorld(t, nil)
	body := io.MultiReader(strings.NewReader(eventLine("1", "x")+"\n"), lettersReader{})
	request := httptest.NewRequestWithContext(t.Context(), "POST", jobs, body)
	request.Header.Set("Authorization", "Bearer user:alice")
	request.Header.Set("Content-Type", ndjson)
	recorder := httptest.NewRecorder()
	w.server.Config.Handler.ServeHTTP(recorder, request)
	got := reply{recorder.Code, recorder.Header(), recorder.Body.String()}
	if answers := got.lines(t); told(answers) != "1:201 2:413" {
		t.Errorf("%s", told(answers))
	}
}

// countedLines is a body of lines without end.
type countedLines struct {
	line string
	rest string
	read atomic.Int64
	stop chan struct{}
}

func (c *countedLines) Read(p []byte) (int, error) {
	select {
	case <-c.stop:
		return 0, io.EOF
	default:
	}
	if c.rest == "" {
		c.rest = c.line
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	c.read.Add(int64(n))
	return n, nil
}

// While nothing can be stored, no more is read than a stream may hold; and what it held is given back.
func TestStreamReadsNoFurtherThanItStores(t *testing.T) {
	w, g := newGatedWorld(t)
	open := g.shut()
	defer open()
	body := &countedLines{line: eventLine("1", strings.Repeat("x", 900)) + "\n", stop: make(chan struct{})}
	request := httptest.NewRequestWithContext(t.Context(), "POST", jobs, body)
	request.Header.Set("Authorization", "Bearer user:alice")
	request.Header.Set("Content-Type", ndjson)
	recorder := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.server.Config.Handler.ServeHTTP(recorder, request)
	}()
	w.until("the write hangs", func() bool { return g.came.Load() > 0 })
	read := int64(-1)
	w.until("the reading stands still", func() bool {
		before := read
		read = body.read.Load()
		<-time.After(20 * time.Millisecond)
		return read == before
	})
	if read > 1<<20+64<<10 {
		t.Errorf("%d bytes read while nothing is stored", read)
	}
	close(body.stop)
	open()
	<-done
	got := reply{recorder.Code, recorder.Header(), recorder.Body.String()}
	answers := got.lines(t)
	if len(answers) == 0 || answers[0].Status != 201 {
		t.Fatalf("%d answers", len(answers))
	}
	for n, a := range answers[1:] {
		if a.Status != 200 && n < len(answers)-2 { // the last may be cut in two
			t.Errorf("answer %d: %+v", n+1, a)
		}
	}
}

// What a stream held of the memory is there again, whatever became of it.
func TestStreamGivesTheMemoryBack(t *testing.T) {
	w := newWorld(t, func(_ *endpoint.ProducerOptions, o *intake.Options) { o.MemoryBytes = 100_000 })
	long := eventLine("1", strings.Repeat("x", 30_000))
	for range 3 {
		c := w.converse(t, w.server.Client(), w.server.URL, "")
		c.say(eventLine("2", "x"), "\n", long, "\n", long[:20_000])
		if a := c.hear(); a == nil || a.Status != 201 && a.Status != 200 {
			t.Fatalf("%+v", a)
		}
		c.hearStatus(2, 413)
		c.leave()
	}
	w.until("the memory is there again", func() bool {
		return w.sendReader("POST", jobs, io.LimitReader(endlessReader{}, 1000), "Idempotency-Key", "k", "Content-Type", "text/plain").status < 300 &&
			w.send("POST", jobs, "["+strings.Repeat(" ", 90_000)+"]", "Content-Type", "application/cloudevents-batch+json").status == 400
	})
}

// A client that goes away leaves what was answered stored, and nobody behind.
func TestClientLeavesItsStream(t *testing.T) {
	w := newWorld(t, nil)
	c := w.converse(t, w.server.Client(), w.server.URL, "")
	for n := 1; n <= 5; n++ {
		c.say(eventLine(fmt.Sprint(n), "x"), "\n")
	}
	c.hearStatus(1, 201)
	c.leave()
	repeats := w.send("POST", jobs, eventLine("1", "x")+"\n"+eventLine("2", "x")+"\n", "Content-Type", ndjson).lines(t)
	if repeats[0].New || repeats[0].Status != 200 {
		t.Errorf("%+v", repeats[0])
	}
}

// overTLS serves the world's handler over HTTP/1.1 or HTTP/2.
func (w *world) overTLS(t *testing.T, two bool) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(w.server.Config.Handler)
	server.EnableHTTP2 = two
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// The time of a line does not run while the flow is what everybody waits for: a queue that stands still, or a job that takes long.
func TestStreamOutlastsTheFlow(t *testing.T) {
	const lineTimeout = 2 * time.Second
	for _, two := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", two), func(t *testing.T) {
			t.Parallel()
			g := &gate{}
			w := newWorld(t, func(p *endpoint.ProducerOptions, o *intake.Options) {
				g.WorkQueue = p.Queue
				p.Queue = g
				o.LineTimeout = lineTimeout
			})
			open := g.shut()
			defer open()
			server := w.overTLS(t, two)
			sent := make(chan []lineAnswer, 1)
			go func() {
				var body strings.Builder
				for n := range 3000 { // more than a stream holds
					body.WriteString(eventLine(fmt.Sprint(n), strings.Repeat("x", 900)) + "\n")
				}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+jobs, strings.NewReader(body.String()))
				if err != nil {
					t.Error(err)
				}
				request.Header.Set("Authorization", "Bearer user:alice")
				request.Header.Set("Content-Type", ndjson)
				response, err := server.Client().Do(request)
				if err != nil {
					t.Error(err)
					close(sent)
					return
				}
				defer response.Body.Close()
				raw, _ := io.ReadAll(response.Body)
				sent <- reply{response.StatusCode, response.Header, string(raw)}.lines(t)
			}()
			w.until("the write hangs", func() bool { return g.came.Load() > 0 })
			<-time.After(3 * lineTimeout / 2)
			open()
			answers := <-sent
			for _, a := range answers {
				if a.Status != 201 {
					t.Fatalf("%+v %+v", a, a.Problem)
				}
			}
			if len(answers) != 3000 {
				t.Errorf("%d answers", len(answers))
			}
			release := make(chan struct{})
			w.work(func(context.Context, protocol.Delivery) endpoint.Result {
				<-release
				return endpoint.Result{Outcome: protocol.Confirmed}
			})
			c := w.converse(t, server.Client(), server.URL, "?wait=confirmed&timeout=1m")
			c.say(eventLine("0", strings.Repeat("x", 900)), "\n")
			<-time.After(3 * lineTimeout / 2)
			close(release)
			if a := c.hearStatus(1, 200); a.State != "confirmed" {
				t.Errorf("%+v", a)
			}
		})
	}
}

// A connection that carried a stream carries the next request.
func TestStreamLeavesItsConnectionUsable(t *testing.T) {
	w := newWorld(t, nil)
	for n := range 3 {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+jobs, strings.NewReader(eventLine(fmt.Sprint(n), "x")+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer user:alice")
		request.Header.Set("Content-Type", ndjson)
		response, err := w.server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK || reused != (n > 0) {
			t.Errorf("request %d: %d, reused %v", n, response.StatusCode, reused)
		}
	}
}
