package protocol

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxRetryAfter bounds every wait that a peer may ask for.
const MaxRetryAfter = time.Hour

// Validate returns an error wrapping ErrInvalid unless the job keeps the limits of the protocol and its payload has
// 1…maxPayload bytes; 0 means MaxPayloadBytes (B-012, B-013).
func (j Job) Validate(maxPayload int) error {
	if err := CheckID("message id", j.MessageID); err != nil {
		return err
	}
	if maxPayload <= 0 || maxPayload > MaxPayloadBytes {
		maxPayload = MaxPayloadBytes
	}
	switch {
	case len(j.Payload) == 0:
		return fmt.Errorf("%w: the payload is empty", ErrInvalid)
	case len(j.Payload) > maxPayload:
		return fmt.Errorf("%w: the payload has %d bytes, the limit is %d", ErrInvalid, len(j.Payload), maxPayload)
	}
	return checkHeaders(j.Headers)
}

func checkHeaders(headers map[string]string) error {
	if len(headers) > MaxHeaders {
		return fmt.Errorf("%w: %d headers, the limit is %d", ErrInvalid, len(headers), MaxHeaders)
	}
	size := 0
	for key, value := range headers {
		size += len(key) + len(value)
		if err := checkHeader(key, value); err != nil {
			return err
		}
	}
	if size > MaxHeaderBytes {
		return fmt.Errorf("%w: the headers have %d bytes, the limit is %d", ErrInvalid, size, MaxHeaderBytes)
	}
	return nil
}

// checkHeader wants what every HTTP stack can carry: a lower-case token as key, and a value without line breaks or NUL. Its
// error names no value, for a value may hold what must not reach a log.
func checkHeader(key, value string) error {
	if key == "" {
		return fmt.Errorf("%w: a header has an empty key", ErrInvalid)
	}
	for i := range len(key) {
		if !keyBytes[key[i]] {
			return fmt.Errorf("%w: header key %q is not a lower-case token", ErrInvalid, clip(key, 64))
		}
	}
	if printable(value, ' ') {
		return nil
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("%w: header %s is not valid UTF-8", ErrInvalid, clip(key, 64))
	}
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("%w: header %s has a control character", ErrInvalid, clip(key, 64))
		}
	}
	return nil
}

// keyBytes are those that may stand in the key of a header: an HTTP field name (RFC 9110, section 5.6.2) without capitals.
var keyBytes = func() (allowed [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") {
		allowed[c] = true
	}
	return allowed
}()

// Validate returns an error wrapping ErrInvalid for ids and claims that break the limits or a window outside 1…MaxFlowControlWindow.
// The version is no part of it: a stranger's version gets its own refusal (B-095).
func (m RegisterConsumer) Validate() error {
	if err := errors.Join(
		CheckID("nonce", m.Nonce),
		CheckID("pod UID", m.Incarnation.PodUID),
		CheckID("boot nonce", m.Incarnation.BootNonce),
	); err != nil {
		return err
	}
	if m.Window < 1 || m.Window > MaxFlowControlWindow {
		return fmt.Errorf("%w: window %d is outside 1…%d", ErrInvalid, m.Window, MaxFlowControlWindow)
	}
	if err := checkEpoch(m.Epoch, m.Queue); err != nil {
		return err
	}
	return checkClaims(m.Claims)
}

// checkEpoch wants an epoch and the name of its data, or neither.
func checkEpoch(epoch uint64, queue string) error {
	if (epoch == 0) != (queue == "") {
		return fmt.Errorf("%w: epoch %d of queue %q", ErrInvalid, epoch, clip(queue, 64))
	}
	if queue == "" {
		return nil
	}
	return CheckID("queue", queue)
}

// CheckRange returns an error wrapping ErrInvalid for a demand that is illegal whatever the binding holds, or that confirms
// more than current, the last worker sequence of the binding. No input makes it overflow (G-101, B-103).
func (m Request) CheckRange(current int64) error {
	switch {
	case m.ConfirmedSeq < 0:
		return fmt.Errorf("%w: confirmed sequence %d is negative", ErrInvalid, m.ConfirmedSeq)
	case m.ConfirmedSeq > current:
		return fmt.Errorf("%w: confirmed sequence %d is above the last one sent, %d", ErrInvalid, m.ConfirmedSeq, current)
	case m.RequestUpTo < m.ConfirmedSeq:
		return fmt.Errorf("%w: demand up to %d ends below the confirmed sequence %d", ErrInvalid, m.RequestUpTo, m.ConfirmedSeq)
	case m.RequestUpTo-m.ConfirmedSeq > MaxFlowControlWindow:
		return fmt.Errorf("%w: demand of %d is above the limit of %d", ErrInvalid, m.RequestUpTo-m.ConfirmedSeq, MaxFlowControlWindow)
	case m.StartedSeq < 0 || m.StartedSeq > current:
		return fmt.Errorf("%w: started sequence %d is outside 0…%d", ErrInvalid, m.StartedSeq, current)
	}
	return nil
}

// Validate returns an error wrapping ErrInvalid unless the settlement can name a delivery and has a known outcome. It does not
// look at Reason, which its receiver cuts with ClipReason.
func (s Settlement) Validate() error {
	switch {
	case s.WorkerSeq < 1 || s.WorkerSeq > MaxSequence:
		return fmt.Errorf("%w: worker sequence %d", ErrInvalid, s.WorkerSeq)
	case s.RetryAfter < 0:
		return fmt.Errorf("%w: negative retry-after", ErrInvalid)
	case s.Outcome < Confirmed || s.Outcome > Inadmissible:
		return fmt.Errorf("%w: outcome %d", ErrInvalid, int(s.Outcome))
	case s.Outcome == Inadmissible && (s.MessageID != "" || s.Attempt != 0):
		return fmt.Errorf("%w: an inadmissible delivery is named by its sequence alone", ErrInvalid)
	case s.Outcome == Inadmissible:
		return nil
	case s.Attempt < 1:
		return fmt.Errorf("%w: attempt %d", ErrInvalid, s.Attempt)
	}
	return CheckID("message id", s.MessageID)
}

// Validate returns an error wrapping ErrInvalid unless a worker may take the delivery in (B-200, B-201).
func (d Delivery) Validate() error {
	switch {
	case d.WorkerSeq < 1 || d.WorkerSeq > MaxSequence:
		return fmt.Errorf("%w: worker sequence %d", ErrInvalid, d.WorkerSeq)
	case d.StoreSeq < 1 || d.StoreSeq > MaxSequence:
		return fmt.Errorf("%w: store sequence %d", ErrInvalid, d.StoreSeq)
	case d.Attempt < 1:
		return fmt.Errorf("%w: attempt %d", ErrInvalid, d.Attempt)
	case d.Broken != "":
		return fmt.Errorf("%w: %s", ErrInvalid, d.Broken)
	}
	return d.Job.Validate(MaxPayloadBytes)
}

// Validate returns an error wrapping ErrInvalid unless the acknowledgement can open a binding.
func (m RegistrationAck) Validate() error {
	if err := errors.Join(
		CheckID("session", m.Session),
		CheckID("nonce", m.Nonce),
		CheckID("binding id", m.BindingID),
		CheckID("secret", m.Secret),
	); err != nil {
		return err
	}
	switch {
	case m.NextSeq < 1 || m.NextSeq > MaxSequence:
		return fmt.Errorf("%w: next sequence %d", ErrInvalid, m.NextSeq)
	case m.Window < 1 || m.Window > MaxFlowControlWindow:
		return fmt.Errorf("%w: window %d is outside 1…%d", ErrInvalid, m.Window, MaxFlowControlWindow)
	case m.Heartbeat <= 0 || m.Deadline <= m.Heartbeat:
		return fmt.Errorf("%w: heartbeat %v and deadline %v", ErrInvalid, m.Heartbeat, m.Deadline)
	}
	if err := checkEpoch(m.Epoch, m.Queue); err != nil {
		return err
	}
	return checkAdopted(m.Adopted)
}

// ClipReason cuts a reason to MaxReasonBytes of valid UTF-8.
func ClipReason(reason string) string { return clip(reason, MaxReasonBytes) }

func clip(text string, limit int) string {
	if len(text) > limit {
		for limit > 0 && !utf8.RuneStart(text[limit]) {
			limit--
		}
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "?")
}
