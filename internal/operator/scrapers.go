package operator

import (
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workpulling/workpulling/internal/complaints"
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
			log = log.WithSink(seldom{sink, complaints.NewPace(clock.RealClock{})})
		}
		return filter(log, handler)
	}, nil
}

// seldom is a log that takes an error when one is due.
type seldom struct {
	logr.LogSink
	pace *complaints.Pace
}

// Error implements logr.LogSink.
func (s seldom) Error(err error, message string, keysAndValues ...any) {
	if s.pace.Due("") {
		s.LogSink.Error(err, message, append(keysAndValues, "more", "not logged for a minute")...)
	}
}

// WithValues implements logr.LogSink.
func (s seldom) WithValues(keysAndValues ...any) logr.LogSink {
	return seldom{s.LogSink.WithValues(keysAndValues...), s.pace}
}

// WithName implements logr.LogSink.
func (s seldom) WithName(name string) logr.LogSink { return seldom{s.LogSink.WithName(name), s.pace} }
