package intake

import (
	"net/http"
	"time"
)

// rolling prepares a stream that is passed on: both directions at once, for as long as it takes. The active producer decides how long that
// is; here only a client that takes no answers is given up.
func (i *Intake) rolling(w http.ResponseWriter) http.ResponseWriter {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 is anyway
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	return &rollingWriter{ResponseWriter: w, control: control, patience: i.options.LineTimeout}
}

// rollingWriter bounds each write instead of all.
type rollingWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

func (w *rollingWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.patience)) //nolint:forbidigo // an I/O deadline
	defer func() { _ = w.control.SetWriteDeadline(time.Time{}) }()
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *rollingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
