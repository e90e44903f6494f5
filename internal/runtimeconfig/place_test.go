package runtimeconfig

import "testing"

func TestPlace(t *testing.T) {
	type layout struct{ path, address, app string }
	for name, c := range map[string]struct {
		place Place
		want  layout
	}{
		"a pod":                  {Place{}, layout{"/etc/workpulling/config/config.json", ":9443", "127.0.0.1"}},
		"a process of the host":  {Place{"/tmp/p", "127.0.1.7"}, layout{"/tmp/p/etc/workpulling/config/config.json", "127.0.1.7:9443", "127.0.1.7"}},
		"with an IPv6 address":   {Place{Host: "::1"}, layout{"/etc/workpulling/config/config.json", "[::1]:9443", "::1"}},
		"with a relative root":   {Place{Root: "p"}, layout{"p/etc/workpulling/config/config.json", ":9443", "127.0.0.1"}},
		"with a root in a slash": {Place{Root: "/p/"}, layout{"/p/etc/workpulling/config/config.json", ":9443", "127.0.0.1"}},
	} {
		got := layout{c.place.Path(ConfigFile), c.place.Address(PortTransport), c.place.AppHost()}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
