package operator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/workpulling/workpulling/controllers/networkpolicy"
	"github.com/workpulling/workpulling/internal/certs"
)

func TestFlags(t *testing.T) {
	cases := map[string]struct {
		args   []string
		change func(*Options)
	}{
		"none": {nil, func(*Options) {}},
		"some": {[]string{"--namespace=ops", "--leader-elect=false", "--concurrency=3", "--status-interval=1m"}, func(o *Options) {
			o.Namespace, o.LeaderElection, o.Concurrency, o.StatusInterval = "ops", false, 3, time.Minute
		}},
		"namespaces":        {[]string{"--watch-namespaces", " shop, ,store,"}, func(o *Options) { o.WatchNamespaces = []string{"shop", "store"} }},
		"the last one wins": {[]string{"--watch-namespaces=shop", "--watch-namespaces=store"}, func(o *Options) { o.WatchNamespaces = []string{"store"} }},
		"all namespaces":    {[]string{"--watch-namespaces=shop", "--watch-namespaces="}, func(*Options) {}},
		"policies": {[]string{
			"--network-policies", `--network-policy-submitters=[]`, `--network-policy-scrapers=[{"podSelector":{}}]`,
			"--network-policy-app-ports=Closed", "--operator-pod-labels=b=2,a=1", "--metrics-host=m",
		}, func(o *Options) {
			o.NetworkPolicies, o.Submitters, o.Scrapers = true, networkpolicy.Peers{}, networkpolicy.SameNamespace()
			o.AppPorts, o.Pods, o.MetricsHost = networkpolicy.AppPortsClosed, Labels{"a": "1", "b": "2"}, "m"
		}},
		"an issuer": {[]string{"--certificate-issuer=ClusterIssuer/corporate"}, func(o *Options) {
			o.CertificateIssuer = certs.IssuerRef{Group: "cert-manager.io", Kind: "ClusterIssuer", Name: "corporate"}
		}},
		"confined":           {[]string{"--confined", "--watch-namespaces=shop"}, func(o *Options) { o.Confined, o.WatchNamespaces = true, []string{"shop"} }},
		"of other libraries": {[]string{"--zap-log-level=debug", "--kubeconfig="}, func(*Options) {}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, want := Defaults(), Defaults()
			tc.change(&want)
			if err := Flags(&got, &zap.Options{}).Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

// What the page of flags shows as a default is what the flag takes.
func TestDefaultsCanBeGiven(t *testing.T) {
	want := Defaults()
	flags := Flags(&want, &zap.Options{})
	for _, name := range []string{"network-policy-submitters", "network-policy-scrapers", "operator-pod-labels"} {
		got := Defaults()
		got.Submitters, got.Scrapers, got.Pods = networkpolicy.Peers{}, networkpolicy.Peers{}, Labels{}
		again := Flags(&got, &zap.Options{})
		if err := again.Set(name, flags.Lookup(name).DefValue); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if shown, want := again.Lookup(name).Value.String(), flags.Lookup(name).DefValue; shown != want {
			t.Errorf("%s is %q, want %q", name, shown, want)
		}
	}
}

func TestAnIssuerThatIsNone(t *testing.T) {
	options := Defaults()
	if err := Flags(&options, &zap.Options{}).Parse([]string{"--certificate-issuer=corporate"}); err == nil {
		t.Error("a name without a kind passes for an issuer")
	}
}
