package protocol

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

func TestCheckID(t *testing.T) {
	for _, tc := range []struct {
		name, id string
		valid    bool
	}{
		{"one byte", "a", true},
		{"B-013 exactly the limit", strings.Repeat("m", MaxIDBytes), true},
		{"B-012 one byte over", strings.Repeat("m", MaxIDBytes+1), false},
		{"B-200 empty", "", false},
		{"B-012 blank", " \u00a0 ", false},
		{"inner blank", "a b", true},
		{"B-200 NUL", "a\x00b", false},
		{"line break", "a\nb", false},
		{"C1 control", "a\u0085b", false},
		{"B-200 not UTF-8", "a\xffb", false},
		{"not ASCII", "Ärger/日本", true},
	} {
		if err := CheckID("id", tc.id); (err == nil) != tc.valid || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestJobValidate(t *testing.T) {
	good := func() Job {
		return Job{MessageID: "m", Payload: []byte("x"), Headers: map[string]string{"ce-type": "demo", "content-type": "text/plain; a=\"b\""}}
	}
	for _, tc := range []struct {
		name  string
		edit  func(*Job)
		valid bool
	}{
		{"good", func(*Job) {}, true},
		{"no headers", func(j *Job) { j.Headers = nil }, true},
		{"B-012 empty payload", func(j *Job) { j.Payload = nil }, false},
		{"B-013 payload at the limit", func(j *Job) { j.Payload = make([]byte, 100) }, true},
		{"B-012 payload one over", func(j *Job) { j.Payload = make([]byte, 101) }, false},
		{"blank id", func(j *Job) { j.MessageID = " " }, false},
		{"upper-case key", func(j *Job) { j.Headers["Ce-Id"] = "x" }, false},
		{"empty key", func(j *Job) { j.Headers[""] = "x" }, false},
		{"key with a space", func(j *Job) { j.Headers["a b"] = "x" }, false},
		{"line break in a value", func(j *Job) { j.Headers["a"] = "x\r\ny: z" }, false},
		{"tab in a value", func(j *Job) { j.Headers["a"] = "x\ty" }, true},
		{"UTF-8 value", func(j *Job) { j.Headers["a"] = "日本" }, true},
		{"broken value", func(j *Job) { j.Headers["a"] = "\xff" }, false},
		{"too many headers", func(j *Job) {
			for i := range MaxHeaders {
				j.Headers[fmt.Sprint("h", i)] = "x"
			}
		}, false},
		{"too much text", func(j *Job) { j.Headers["a"] = strings.Repeat("x", MaxHeaderBytes) }, false},
	} {
		job := good()
		tc.edit(&job)
		if err := job.Validate(100); (err == nil) != tc.valid || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if err := (Job{MessageID: "m", Payload: make([]byte, MaxPayloadBytes+1)}).Validate(0); !errors.Is(err, ErrInvalid) {
		t.Errorf("no flow limit is no limit at all: %v", err)
	}
}

func TestErrorsNeverQuoteWhatMustNotBeLogged(t *testing.T) {
	secret := "secret\x01value"
	err := Job{MessageID: "m", Payload: []byte("x"), Headers: map[string]string{"authorization": secret}}.Validate(0)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Fatalf("%v", err)
	}
}

func TestCheckRange(t *testing.T) {
	const current = 10
	for _, tc := range []struct {
		confirmed, upTo, started int64
		valid                    bool
	}{
		{0, 0, 0, true},
		{10, 10, 10, true},
		{5, 5 + MaxFlowControlWindow, 7, true},
		{5, 6 + MaxFlowControlWindow, 7, false},
		{11, 20, 5, false},
		{-1, 20, 5, false},
		{5, 4, 5, false},
		{0, 5, 11, false},
		{0, 5, -1, false},
		{math.MinInt64, math.MaxInt64, 0, false},
		{0, math.MaxInt64, 0, false},
		{math.MaxInt64, math.MinInt64, 0, false},
	} {
		err := Request{ConfirmedSeq: tc.confirmed, RequestUpTo: tc.upTo, StartedSeq: tc.started}.CheckRange(current)
		if (err == nil) != tc.valid || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

func TestMessagesValidate(t *testing.T) {
	register := RegisterConsumer{Version: 1, Nonce: "n", Incarnation: Incarnation{"p", "b"}, Window: 1}
	ack := RegistrationAck{Session: "s", Nonce: "n", BindingID: "b", Secret: "x", NextSeq: 1, Window: 1, Heartbeat: time.Second, Deadline: 2 * time.Second}
	delivery := Delivery{WorkerSeq: 1, StoreSeq: 1, Attempt: 1, Job: Job{MessageID: "m", Payload: []byte("x")}}
	claim := Claim{StoreSeq: 1, MessageID: "m", Attempt: 1, Ticket: Ticket{1}, State: ClaimConfirmed}
	settlement := Settlement{WorkerSeq: 1, MessageID: "m", Attempt: 1, Outcome: Confirmed}
	for _, tc := range []struct {
		name  string
		edit  func()
		valid bool
	}{
		{"as they are", func() {}, true},
		{"window zero", func() { register.Window = 0 }, false},
		{"B-101 window over the maximum", func() { register.Window = MaxFlowControlWindow + 1 }, false},
		{"no nonce", func() { register.Nonce = "" }, false},
		{"a claim", func() { register.Claims = []Claim{claim} }, true},
		{"a claim without a ticket", func() { claim.Ticket = Ticket{}; register.Claims = []Claim{claim} }, false},
		{"a claim of sequence 0", func() { claim.StoreSeq = 0; register.Claims = []Claim{claim} }, false},
		{"a claim of attempt 0", func() { claim.Attempt = 0; register.Claims = []Claim{claim} }, false},
		{"a claim in no state", func() { claim.State = 0; register.Claims = []Claim{claim} }, false},
		{"a claim of no job", func() { claim.MessageID = ""; register.Claims = []Claim{claim} }, false},
		{"a claim with a long reason", func() { claim.Reason = strings.Repeat("r", 129); register.Claims = []Claim{claim} }, false},
		{"too many claims", func() { register.Claims = slices.Repeat([]Claim{claim}, MaxClaims+1) }, false},
		{"an epoch of no queue", func() { ack.Epoch = 1 }, false},
		{"a registration with an epoch of no queue", func() { register.Epoch = 1 }, false},
		{"a registration with an epoch", func() { register.Epoch, register.Queue = 1, "q" }, true},
		{"an epoch of a queue", func() { ack.Epoch, ack.Queue = 1, "q" }, true},
		{"a queue with a control character", func() { ack.Epoch, ack.Queue = 1, "q\n" }, false},
		{"an adopted job", func() { ack.Adopted = []Adopted{{WorkerSeq: 1, StoreSeq: 1, MessageID: "m", Attempt: 1}} }, true},
		{"an adopted job twice", func() {
			ack.Adopted = slices.Repeat([]Adopted{{WorkerSeq: 1, StoreSeq: 1, MessageID: "m", Attempt: 1}}, 2)
		}, false},
		{"an adopted job of attempt 0", func() { ack.Adopted = []Adopted{{WorkerSeq: 1, StoreSeq: 1, MessageID: "m"}} }, false},
		{"no boot nonce", func() { register.Incarnation.BootNonce = "" }, false},
		{"no secret", func() { ack.Secret = "" }, false},
		{"next sequence zero", func() { ack.NextSeq = 0 }, false},
		{"no heartbeat", func() { ack.Heartbeat = 0 }, false},
		{"deadline before a heartbeat", func() { ack.Deadline = ack.Heartbeat }, false},
		{"B-201 worker sequence zero", func() { delivery.WorkerSeq = 0 }, false},
		{"B-201 worker sequence at the top", func() { delivery.WorkerSeq = MaxSequence }, true},
		{"B-201 worker sequence over the top", func() { delivery.WorkerSeq = math.MaxInt64 }, false},
		{"B-201 negative store sequence", func() { delivery.StoreSeq = -1 }, false},
		{"attempt zero", func() { delivery.Attempt = 0 }, false},
		{"B-202 no payload", func() { delivery.Job.Payload = nil }, false},
		{"outcome zero", func() { settlement.Outcome = 0 }, false},
		{"outcome beyond the last", func() { settlement.Outcome = Delayed + 1 }, false},
		{"negative wait", func() { settlement.RetryAfter = -1 }, false},
		{"no message id", func() { settlement.MessageID = "" }, false},
	} {
		r, a, d, s, c := register, ack, delivery, settlement, claim
		tc.edit()
		err := errors.Join(register.Validate(), ack.Validate(), delivery.Validate(), settlement.Validate())
		if (err == nil) != tc.valid || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", tc.name, err)
		}
		register, ack, delivery, settlement, claim = r, a, d, s, c
	}
}

func TestClipReason(t *testing.T) {
	for in, want := range map[string]string{
		"short":                               "short",
		strings.Repeat("x", MaxReasonBytes+1): strings.Repeat("x", MaxReasonBytes),
		strings.Repeat("x", MaxReasonBytes-1) + "日": strings.Repeat("x", MaxReasonBytes-1),
		"broken \xff": "broken ?",
	} {
		if got := ClipReason(in); got != want || !utf8.ValidString(got) {
			t.Errorf("%d bytes became %d", len(in), len(got))
		}
	}
}

// The keys of headers are those field names of HTTP that have no capitals.
func TestHeaderKeys(t *testing.T) {
	for c := range 256 {
		key := "a" + string([]byte{byte(c)})
		err := Job{MessageID: "id", Payload: []byte("x"), Headers: map[string]string{key: "value"}}.Validate(0)
		if want := httpguts.ValidHeaderFieldName(key) && strings.ToLower(key) == key; (err == nil) != want {
			t.Errorf("key %q: %v", key, err)
		}
	}
}
