package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/workpulling/workpulling/internal/certs"
)

type authority struct{}

func (authority) Expires() time.Time { return time.Unix(5, 0) }
func (authority) Phase() certs.Phase { return certs.PhaseReplacing }

func TestAuthority(t *testing.T) {
	registry := prometheus.NewRegistry()
	NewOperator(registry, authority{})
	want := `
# HELP workpulling_operator_ca_expiry_timestamp_seconds When the certificate authority that signs now expires.
# TYPE workpulling_operator_ca_expiry_timestamp_seconds gauge
workpulling_operator_ca_expiry_timestamp_seconds 5
# HELP workpulling_operator_ca_rotation 1 for the phase that the rotation of the certificate authority is in: None, Announced or Replacing.
# TYPE workpulling_operator_ca_rotation gauge
workpulling_operator_ca_rotation{phase="Announced"} 0
workpulling_operator_ca_rotation{phase="None"} 0
workpulling_operator_ca_rotation{phase="Replacing"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "workpulling_operator_ca_expiry_timestamp_seconds", "workpulling_operator_ca_rotation"); err != nil {
		t.Error(err)
	}
}

func TestSeriesVanishWithTheObject(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewOperator(registry, authority{})
	m.Pool("media", "resize", PoolWorkers{Desired: 3, Live: 2})
	m.Step("media", "resize", "Create")
	m.Flow("media", "thumbnails", true, 5, 1, 0)
	m.StatusWrite("WorkerPool")
	m.FlowCertificate("media", "thumbnails", time.Unix(1, 0))
	m.PoolCertificate("media", "resize", time.Unix(1, 0))
	if n := testutil.CollectAndCount(m.certificates); n != 2 {
		t.Errorf("%d certificates, want 2", n)
	}
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
