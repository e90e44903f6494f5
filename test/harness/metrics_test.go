package harness

import (
	"strings"
	"testing"
)

func TestMetricsAreAddedUpByLabels(t *testing.T) {
	metrics, err := ReadMetrics(strings.NewReader(`# TYPE settled counter
settled{flow="a",outcome="confirmed"} 3
settled{flow="a",outcome="failed"} 1
settled{flow="b",outcome="confirmed"} 7
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"settled", nil, 11},
		{"settled", []string{"flow", "a"}, 4},
		{"settled", []string{"flow", "a", "outcome", "confirmed"}, 3},
		{"settled", []string{"flow", "c"}, 0},
		{"settled", []string{"pool", ""}, 11}, // a label that is not there is empty
		{"other", nil, 0},
	} {
		if got := metrics.Total(c.name, c.labels...); got != c.want {
			t.Errorf("%s %v: %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}
