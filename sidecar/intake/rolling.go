package intake

import (
	"io"
	"net/http"
	"time"
)

// rolling prepares a stream that is passed on: both directions at once, each for as long as something comes. The active producer has
// the last word on how long a line may take.
func (i *Intake) rolling(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 is anyway
	patience := i.options.LineTimeout + i.options.StoreTimeout + i.options.StreamPatience + maxWait
	later := func(set func(time.Time) error) func() {
		return func() { _ = set(time.Now().Add(patience)) } //nolint:forbidigo // an I/O deadline
	}
	onward := r.WithContext(r.Context())
	onward.Body = &rollingBody{ReadCloser: r.Body, extend: later(control.SetReadDeadline)}
	return &rollingWriter{ResponseWriter: w, extend: later(control.SetWriteDeadline)}, onward
}

type rollingBody struct {
	io.ReadCloser
	extend func()
}

func (b *rollingBody) Read(p []byte) (int, error) {
	b.extend()
	return b.ReadCloser.Read(p)
}

type rollingWriter struct {
	http.ResponseWriter
	extend func()
}

func (w *rollingWriter) Write(p []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *rollingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
