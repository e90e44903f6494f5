package operator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
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
		"namespaces":         {[]string{"--watch-namespaces", " shop, ,store,"}, func(o *Options) { o.WatchNamespaces = []string{"shop", "store"} }},
		"the last one wins":  {[]string{"--watch-namespaces=shop", "--watch-namespaces=store"}, func(o *Options) { o.WatchNamespaces = []string{"store"} }},
		"all namespaces":     {[]string{"--watch-namespaces=shop", "--watch-namespaces="}, func(*Options) {}},
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
