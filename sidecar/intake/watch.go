package intake

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
)

// watched counts every answer, those of the paths that nobody serves included, and answers for a handler that breaks.
func (i *Intake) watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := &statusRecorder{ResponseWriter: w}
		defer func() {
			if recorder.status != 0 { // 0: the connection was cut instead
				i.options.OnAnswer(recorder.status)
			}
		}()
		defer i.recovered(recorder)
		if r.RequestURI == "*" { // the mux would answer without a word
			kindNoPath.problem().write(recorder)
			return
		}
		next.ServeHTTP(recorder, r)
	})
}

// recovered is deferred: it turns a panic into a problem whose instance the log knows. Half an answer is cut off, so that nobody takes it
// for a whole one.
func (i *Intake) recovered(w *statusRecorder) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	what := fmt.Sprintf("%T", cause) // its text might quote a body
	if fault, ok := cause.(runtime.Error); ok {
		what = fault.Error()
	}
	p := kindInternal.problem()
	p.Instance = "urn:workpulling:intake:" + rand.Text()
	i.options.Log.Error(nil, "A request met a bug of the intake", "instance", p.Instance, "panic", what, "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	p.write(w)
}

// miss answers a request that no route takes; methods are those that its path would take.
func miss(w http.ResponseWriter, methods []string) {
	if len(methods) == 0 {
		kindNoPath.problem().write(w)
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	kindMethod.problem().write(w)
}

// allowed are the methods that some route takes on the path of the request.
func allowed(mux *http.ServeMux, r *http.Request) (methods []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := mux.Handler(&other); pattern != "/" {
			methods = append(methods, method)
		}
	}
	return methods
}

// statusRecorder remembers the status of an answer, 0 while there is none.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusRecorder) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
