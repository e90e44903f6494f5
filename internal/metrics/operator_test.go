package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestSeriesVanishWithTheObject(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewOperator(registry, time.Now)
	m.Pool("media", "resize", PoolWorkers{Desired: 3, Live: 2})
	m.Step("media", "resize", "Create")
	m.Flow("media", "thumbnails", true, 5, 1, 0)
	m.StatusWrite("WorkerPool")
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, error %v", problems, err)
	}
	m.ForgetPool("media", "resize")
	m.ForgetFlow("media", "thumbnails")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "workpulling_operator_") {
			t.Errorf("%s has another prefix", family.GetName())
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "namespace" {
					t.Errorf("%s still has a series of a deleted object", family.GetName())
				}
			}
		}
	}
}
