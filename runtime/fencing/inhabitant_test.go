package fencing

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/runtime/transport"
)

// podAt is a running pod of shop with addresses.
func podAt(name string, addresses ...string) *unstructured.Unstructured {
	ips := make([]any, 0, len(addresses))
	for _, address := range addresses {
		ips = append(ips, map[string]any{"ip": address})
	}
	status := map[string]any{"phase": "Running", "podIPs": ips}
	if len(addresses) > 0 {
		status["podIP"] = addresses[0]
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "namespace": "shop", "uid": name + "-uid"},
		"spec":     map[string]any{"serviceAccountName": name + "-account"}, "status": status,
	}}
}

func altered(pod *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
	if err := unstructured.SetNestedField(pod.Object, value, path...); err != nil {
		panic(err)
	}
	return pod
}

func TestWhoIsBehindAnAddress(t *testing.T) {
	foreign := podAt("web", "10.0.0.1")
	foreign.SetNamespace("other")
	leaving := podAt("web", "10.0.0.1")
	leaving.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
	onHost := altered(podAt("agent", "10.0.0.1"), true, "spec", "hostNetwork")
	cases := map[string]struct {
		from  string
		known []*unstructured.Unstructured
		want  transport.Label // "" for admitted
	}{
		"a live pod":                            {from: "10.0.0.1", known: []*unstructured.Unstructured{podAt("web", "10.0.0.1")}},
		"a pod that starts":                     {from: "10.0.0.1", known: []*unstructured.Unstructured{altered(podAt("web", "10.0.0.1"), "Pending", "status", "phase")}},
		"its second address":                    {from: "fd00::1", known: []*unstructured.Unstructured{podAt("web", "10.0.0.1", "fd00::1")}},
		"another spelling of an IPv6 address":   {from: "fd00:0:0::0001", known: []*unstructured.Unstructured{podAt("web", "fd00::1")}},
		"an address with a zone":                {from: "fd00::1%eth0", known: []*unstructured.Unstructured{podAt("web", "fd00::1")}},
		"IPv4 in IPv6":                          {from: "::ffff:10.0.0.1", known: []*unstructured.Unstructured{podAt("web", "10.0.0.1")}},
		"an unknown address":                    {from: "10.0.0.2", known: []*unstructured.Unstructured{podAt("web", "10.0.0.1")}, want: transport.LabelAddressUnknown},
		"nothing known":                         {from: "10.0.0.1", want: transport.LabelAddressUnknown},
		"a pod without an address":              {from: "10.0.0.1", known: []*unstructured.Unstructured{podAt("web")}, want: transport.LabelAddressUnknown},
		"a pod of another namespace":            {from: "10.0.0.1", known: []*unstructured.Unstructured{foreign}, want: transport.LabelAddressUnknown},
		"a pod with hostNetwork":                {from: "10.0.0.1", known: []*unstructured.Unstructured{onHost}, want: transport.LabelAddressHost},
		"a node's address that a pod claims":    {from: "10.0.0.1", known: []*unstructured.Unstructured{podAt("web", "10.0.0.1"), onHost}, want: transport.LabelAddressHost},
		"a pod that is being deleted":           {from: "10.0.0.1", known: []*unstructured.Unstructured{leaving}, want: transport.LabelAddressTerminating},
		"a pod that has succeeded":              {from: "10.0.0.1", known: []*unstructured.Unstructured{altered(podAt("web", "10.0.0.1"), "Succeeded", "status", "phase")}, want: transport.LabelAddressFinished},
		"a pod that has failed":                 {from: "10.0.0.1", known: []*unstructured.Unstructured{altered(podAt("web", "10.0.0.1"), "Failed", "status", "phase")}, want: transport.LabelAddressFinished},
		"two live pods with one address":        {from: "10.0.0.1", known: []*unstructured.Unstructured{podAt("web", "10.0.0.1"), podAt("api", "10.0.0.1")}, want: transport.LabelAddressShared},
		"the same pod twice":                    {from: "10.0.0.1", known: []*unstructured.Unstructured{podAt("web", "10.0.0.1"), podAt("web", "10.0.0.1")}},
		"the successor of a finished pod":       {from: "10.0.0.1", known: []*unstructured.Unstructured{altered(podAt("old", "10.0.0.1"), "Failed", "status", "phase"), podAt("web", "10.0.0.1")}},
		"the successor of a pod that leaves":    {from: "10.0.0.1", known: []*unstructured.Unstructured{podAt("web", "10.0.0.1"), altered(podAt("old", "10.0.0.1"), "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")}},
		"a finished pod with hostNetwork":       {from: "10.0.0.1", known: []*unstructured.Unstructured{altered(altered(podAt("old", "10.0.0.1"), true, "spec", "hostNetwork"), "Failed", "status", "phase")}, want: transport.LabelAddressFinished},
		"port-forward, which is the loopback":   {from: "127.0.0.1", known: []*unstructured.Unstructured{podAt("web", "127.0.0.1")}, want: transport.LabelAddressUnknown},
		"the loopback in IPv6":                  {from: "::1", known: []*unstructured.Unstructured{podAt("web", "::1")}, want: transport.LabelAddressUnknown},
		"the loopback of IPv4 in IPv6":          {from: "::ffff:127.0.0.1", known: []*unstructured.Unstructured{podAt("web", "127.0.0.1")}, want: transport.LabelAddressUnknown},
		"an address of the link":                {from: "fe80::1%eth0", known: []*unstructured.Unstructured{podAt("web", "fe80::1")}, want: transport.LabelAddressUnknown},
		"no address in particular":              {from: "0.0.0.0", known: []*unstructured.Unstructured{podAt("web", "0.0.0.0")}, want: transport.LabelAddressUnknown},
		"a text that is no address in a status": {from: "10.0.0.1", known: []*unstructured.Unstructured{podAt("web", "10.0.0.1.example")}, want: transport.LabelAddressUnknown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			known := make([]*inhabitant, 0, len(tc.known))
			for _, pod := range tc.known {
				known = append(known, inhabitantOf(pod))
			}
			for range 2 { // the order does not matter
				pod, refusal := judgeAddress(netip.MustParseAddr(tc.from), "shop", known)
				switch {
				case tc.want == "" && (refusal != nil || pod.account != "web-account"):
					t.Errorf("%v, refused: %v", pod, refusal)
				case tc.want != "" && (refusal == nil || refusal.Label != tc.want || refusal.RetryAfter <= 0):
					t.Errorf("refused: %v, want %s", refusal, tc.want)
				}
				for i, j := 0, len(known)-1; i < j; i, j = i+1, j-1 {
					known[i], known[j] = known[j], known[i]
				}
			}
		})
	}
	if _, refusal := judgeAddress(netip.Addr{}, "shop", []*inhabitant{{addresses: []netip.Addr{{}}}}); refusal == nil {
		t.Error("no address at all is somebody")
	}
}

func TestWhatIsKeptOfAPod(t *testing.T) {
	pod := podAt("web", "10.0.0.1", "10.0.0.1", "fd00::1")
	unstructured.RemoveNestedField(pod.Object, "spec", "serviceAccountName")
	got := inhabitantOf(pod)
	want := &inhabitant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID("web-uid")}, account: "default",
		addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(inhabitant{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}
