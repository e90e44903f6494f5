package networkpolicy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPeers(t *testing.T) {
	cases := map[string]struct {
		text string
		want string // empty: refused
	}{
		"nobody":             {`[]`, `[]`},
		"null":               {`null`, `[]`},
		"the same namespace": {`[{"podSelector": {}}]`, `[{"podSelector":{}}]`},
		"an address": {
			`[{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]`,
			`[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}}]`,
		},
		"no list":              {`{"podSelector": {}}`, ""},
		"two lists":            {`[] []`, ""},
		"no JSON":              {`app=web`, ""},
		"an unknown field":     {`[{"pods": {}}]`, ""},
		"an empty peer":        {`[{}]`, ""},
		"a peer of both sorts": {`[{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]`, ""},
		"no selector":          {`[{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]`, ""},
		"no CIDR":              {`[{"ipBlock": {"cidr": "10.0.0.1"}}]`, ""},
		"an odd exception":     {`[{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]`, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var peers Peers
			if err := peers.UnmarshalText([]byte(tc.text)); (err == nil) != (tc.want != "") {
				t.Fatalf("error %v", err)
			}
			if tc.want == "" {
				return
			}
			text, err := peers.MarshalText()
			if diff := cmp.Diff(tc.want, string(text)); diff != "" || err != nil {
				t.Errorf("error %v, text (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestAppPorts(t *testing.T) {
	for text, want := range map[string]bool{"Open": true, "Closed": true, "": false, "open": false, "Some": false} {
		var ports AppPorts
		if err := ports.UnmarshalText([]byte(text)); (err == nil) != want || want && string(ports) != text {
			t.Errorf("%q is read as %q, error %v", text, ports, err)
		}
	}
}
