package operator

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	good := Defaults()
	good.Namespace, good.RuntimeImage, good.Address = "workpulling-system", "workpulling/workpulling:v1", "operator.workpulling-system.svc:9443"
	if err := good.validate(); err != nil {
		t.Fatal(err)
	}
	if host, err := good.host(); err != nil || host != "operator.workpulling-system.svc" {
		t.Errorf("host %q, error %v", host, err)
	}
	if got, want := good.metricsHost(), "workpulling-operator-metrics.workpulling-system.svc"; got != want {
		t.Errorf("the metrics are served as %q, want %q", got, want)
	}
	for _, address := range []string{"0", "127.0.0.1:8443", "[::1]:8443"} {
		confined := good
		confined.Confined, confined.WatchNamespaces, confined.MetricsAddress = true, []string{"shop"}, address
		if err := confined.validate(); err != nil {
			t.Errorf("confined, metrics at %s: %v", address, err)
		}
	}
	cases := map[string]struct {
		change func(*Options)
		want   string
	}{
		"no namespace":        {func(o *Options) { o.Namespace = "" }, "--namespace"},
		"no image":            {func(o *Options) { o.RuntimeImage = "" }, "--runtime-image"},
		"no port":             {func(o *Options) { o.Address = "operator" }, "--operator-address"},
		"no pause":            {func(o *Options) { o.RotationPause = time.Minute }, "--ca-rotation-pause"},
		"no workers":          {func(o *Options) { o.Concurrency = 0 }, "--concurrency"},
		"confined to nothing": {func(o *Options) { o.Confined, o.MetricsAddress = true, "127.0.0.1:8443" }, "--watch-namespaces"},
		"open metrics":        {func(o *Options) { o.Confined, o.WatchNamespaces = true, []string{"shop"} }, "--metrics-bind-address"},
		"nameless metrics": {func(o *Options) {
			o.Confined, o.WatchNamespaces, o.MetricsAddress = true, []string{"shop"}, "localhost.example:8443"
		}, "--metrics-bind-address"},
		"any pod": {func(o *Options) { o.NetworkPolicies, o.Pods = true, nil }, "--operator-pod-labels"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			options := good
			tc.change(&options)
			if err := options.validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that names %s", err, tc.want)
			}
		})
	}
}
