package operator

import (
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// scrapers lets callers get metrics who prove to the API server that they may. Its filter logs an error for each token that is none, and anybody
// can present one as often as they like.
func scrapers(config *rest.Config, web *http.Client) (metricsserver.Filter, error) {
	filter, err := filters.WithAuthenticationAndAuthorization(config, web)
	if err != nil {
		return nil, err
	}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		if sink := log.GetSink(); sink != nil {
			log = log.WithSink(seldom{LogSink: sink, due: onceIn(time.Minute)})
		}
		return filter(log, handler)
	}, nil
}

// seldom is a log that takes an error when one is due.
type seldom struct {
	logr.LogSink
	due func() bool
}

// Error implements logr.LogSink.
func (s seldom) Error(err error, message string, keysAndValues ...any) {
	if s.due() {
		s.LogSink.Error(err, message, append(keysAndValues, "more", "not logged for a minute")...)
	}
}

// WithValues implements logr.LogSink.
func (s seldom) WithValues(keysAndValues ...any) logr.LogSink {
	return seldom{s.LogSink.WithValues(keysAndValues...), s.due}
}

// WithName implements logr.LogSink.
func (s seldom) WithName(name string) logr.LogSink { return seldom{s.LogSink.WithName(name), s.due} }

// onceIn returns a function that is true when it was not for so long.
func onceIn(pause time.Duration) func() bool {
	var mu sync.Mutex
	var last time.Time
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now() //nolint:forbidigo // the pace of a log
		if !last.IsZero() && now.Sub(last) < pause {
			return false
		}
		last = now
		return true
	}
}
