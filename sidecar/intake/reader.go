package intake

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	errNoEvent = malformed("the body is not a CloudEvent in JSON format with specversion 1.0")
	errNoText  = malformed("the CloudEvent is not UTF-8")
	errNoBatch = malformed("the batch is not a JSON array of CloudEvents")
)

// reader makes jobs of CloudEvents in JSON format, in one pass over each body. What the library for CloudEvents would make of an event of
// the usual form it makes without the detour; every other event is left to the library. Nothing of a job refers to the body.
type reader struct {
	header http.Header
	tokens *jsontext.Decoder
	body   []byte
	isText bool // the body is UTF-8
	event  members
	maker  maker
}

// newReader returns a reader of bodies that came with header.
func newReader(header http.Header) *reader {
	return &reader{header: header, tokens: new(jsontext.Decoder), maker: newMaker(header)}
}

// begin turns to a body. Names that are repeated and text that is none are for who looks at the event that has them.
func (r *reader) begin(body []byte) {
	r.tokens.Reset(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	r.body, r.isText = body, utf8.Valid(body)
}

// one reads a body that is one event.
func (r *reader) one(body []byte) decoded {
	r.begin(body)
	if !r.isText {
		return decoded{err: errNoText}
	}
	job, err := r.next()
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return decoded{err: errNoEvent}
	}
	return job
}

// many reads a body that is an array of events.
func (r *reader) many(body []byte) ([]decoded, error) {
	r.begin(body)
	if bracket, err := r.tokens.ReadToken(); err != nil || bracket.Kind() != '[' {
		return nil, errNoBatch
	}
	var jobs []decoded
	count := 0
	for ; r.tokens.PeekKind() != ']'; count++ {
		if count >= maxBatch { // the number is part of the answer, if the rest is JSON at all
			if err := r.tokens.SkipValue(); err != nil {
				return nil, errNoBatch
			}
			continue
		}
		job, err := r.next()
		if err != nil {
			return nil, errNoBatch
		}
		if jobs == nil { // the others are like the first, most often
			jobs = make([]decoded, 0, min(maxBatch, len(body)/int(r.tokens.InputOffset())+1))
		}
		jobs = append(jobs, job)
	}
	if _, err := r.tokens.ReadToken(); err != nil || r.end() != nil {
		return nil, errNoBatch
	}
	if count == 0 || count > maxBatch {
		return nil, malformed("a batch has 1…%d events, this one has %d", maxBatch, count)
	}
	return jobs, nil
}

// end wants nothing more to come.
func (r *reader) end() error {
	if _, err := r.tokens.ReadToken(); !errors.Is(err, io.EOF) {
		return errNoEvent
	}
	return nil
}

// next takes the next value as an event. Its error is of the syntax.
func (r *reader) next() (decoded, error) {
	raw, err := r.read()
	if err != nil {
		return decoded{}, err
	}
	if r.event.broken() {
		return decoded{err: errNoEvent}, nil
	}
	if r.isText {
		if job, ok := r.maker.job(&r.event); ok {
			return checked(job), nil
		}
	}
	event, err := decodeStructured(raw)
	return fromEvent(r.header, event, err), nil
}

// read takes the next value, and its members if it is an object.
func (r *reader) read() (raw []byte, err error) {
	r.event.clear()
	if r.tokens.PeekKind() != '{' {
		return r.value()
	}
	if _, err := r.tokens.ReadToken(); err != nil {
		return nil, err
	}
	start := r.tokens.InputOffset() - 1
	for r.tokens.PeekKind() == '"' {
		name, err := r.name()
		if err != nil {
			return nil, err
		}
		colon := r.tokens.InputOffset()
		if err := r.tokens.SkipValue(); err != nil {
			return nil, err
		}
		_, value, _ := bytes.Cut(r.body[colon:r.tokens.InputOffset()], []byte{':'})
		r.event.add(name, value)
	}
	if _, err := r.tokens.ReadToken(); err != nil {
		return nil, err
	}
	return r.body[start:r.tokens.InputOffset()], nil
}

// name takes the name of the next member.
func (r *reader) name() ([]byte, error) {
	name, err := r.value()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, name) // what is no text names nothing that is known
		return name, nil
	}
	return name[1 : len(name)-1], nil
}

// value takes the next value as it stands in the body.
func (r *reader) value() ([]byte, error) {
	value, err := r.tokens.ReadValue()
	end := r.tokens.InputOffset()
	return r.body[end-int64(len(value)) : end], err
}
