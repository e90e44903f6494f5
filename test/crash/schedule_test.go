package crash

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAScheduleFollowsFromItsSeed(t *testing.T) {
	weights := Weights{{KillApp, 3}, {PauseProducer, 1}}
	one, again := Schedule(7, time.Hour, time.Second, weights), Schedule(7, time.Hour, time.Second, weights)
	if diff := cmp.Diff(one, again); diff != "" {
		t.Errorf("the same seed, another schedule:\n%s", diff)
	}
	if cmp.Equal(one, Schedule(8, time.Hour, time.Second, weights)) {
		t.Error("another seed, the same schedule")
	}
	// A longer run begins with the faults of the shorter one.
	short := Schedule(7, time.Minute, time.Second, weights)
	if diff := cmp.Diff(one[:len(short)], short); diff != "" {
		t.Errorf("a shorter schedule is no beginning of the longer:\n%s", diff)
	}
	kinds := map[Kind]int{}
	for i, f := range one {
		kinds[f.Kind]++
		if f.At >= time.Hour || i > 0 && f.At < one[i-1].At || (f.For > 0) != (f.Kind == PauseProducer) {
			t.Fatalf("fault %d is %+v", i, f)
		}
	}
	if n := len(one); n < 3300 || n > 3900 || kinds[KillApp] < 2*kinds[PauseProducer] || len(kinds) != 2 {
		t.Errorf("%d faults in an hour: %v", n, kinds)
	}
}

func TestNameServer(t *testing.T) {
	here := netip.MustParseAddr("127.1.2.3")
	names, err := listenNames(func(name string) []netip.Addr {
		return map[string][]netip.Addr{"flow.ns.svc": {here}, "empty.ns.svc": {}}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	defer names.close()
	got, err := names.resolver().LookupNetIP(t.Context(), "ip4", "flow.ns.svc")
	if err != nil || len(got) != 1 || got[0].Unmap() != here {
		t.Errorf("a name: %v, %v", got, err)
	}
	for _, name := range []string{"empty.ns.svc", "nobody.ns.svc"} {
		if got, err := names.resolver().LookupNetIP(t.Context(), "ip4", name); err == nil {
			t.Errorf("%s is %v", name, got)
		}
	}
}
