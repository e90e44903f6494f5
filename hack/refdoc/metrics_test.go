package main

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// Names follow the conventions of Prometheus, and ours.
func TestMetricNames(t *testing.T) {
	for _, e := range exporters() {
		families, err := e.families()
		if err != nil {
			t.Fatal(err)
		}
		if len(families) == 0 {
			t.Errorf("%s has no metrics", e.title)
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range problems {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
		for _, family := range families {
			name := family.GetName()
			if !strings.HasPrefix(name, "workpulling_") {
				t.Errorf("%s does not start with workpulling_", name)
			}
			if counts := family.GetType() == dto.MetricType_COUNTER; counts != strings.HasSuffix(name, "_total") {
				t.Errorf("%s is a %s", name, family.GetType())
			}
			if !strings.HasSuffix(family.GetHelp(), ".") {
				t.Errorf("the help of %s is no sentence: %q", name, family.GetHelp())
			}
		}
	}
}

// A metric that nothing makes a sample of would be missing on the page.
func TestAMetricWithoutASampleIsFound(t *testing.T) {
	e := exporter{title: "x", register: func(r registry) {
		r.MustRegister(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workpulling_lonely_total", Help: "Alone."}, []string{"label"}))
	}}
	if _, err := e.families(); err == nil || !strings.Contains(err.Error(), "workpulling_lonely_total") {
		t.Errorf("families: %v", err)
	}
}
