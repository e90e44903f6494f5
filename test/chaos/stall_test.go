package chaos

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/test/prober"
)

func TestStalls(t *testing.T) {
	job := func(accepted, settled float64) prober.Record {
		return prober.Record{Accepted: true, AcceptedAt: at(accepted), State: prober.StateConfirmed, SettledAt: at(settled)}
	}
	ends := func(times ...float64) (out []prober.Run) {
		for _, t := range times {
			out = append(out, ran("w", t-0.1, t, 204))
		}
		return out
	}
	cases := map[string]struct {
		records map[string]prober.Record
		runs    map[string][]prober.Run
		want    time.Duration // the longest
	}{
		"nothing to do is no stall":         {map[string]prober.Record{"a": job(1, 3), "b": job(100, 101)}, nil, 2 * time.Second},
		"a run that ended well is progress": {map[string]prober.Record{"a": job(1, 50)}, map[string][]prober.Run{"a": ends(4)}, 3 * time.Second},
		"a failed run is none": {
			map[string]prober.Record{"a": job(1, 50)}, map[string][]prober.Run{"a": {ran("w", 3, 4, 500)}}, 49 * time.Second,
		},
		"others go on": {
			map[string]prober.Record{"a": job(1, 50), "b": job(1, 20), "c": job(25, 40)}, nil, 20 * time.Second,
		},
		"one that never ends waits until the end":     {map[string]prober.Record{"a": {Accepted: true, AcceptedAt: at(10)}}, nil, 190 * time.Second},
		"done before its answer was read":             {map[string]prober.Record{"a": job(10, 60)}, map[string][]prober.Run{"a": ends(9)}, 0},
		"one that always fails waits on purpose":      {map[string]prober.Record{"a-poison": job(1, 90)}, nil, 0},
		"one that was not accepted waits for nothing": {map[string]prober.Record{"a": {SubmittedAt: at(1)}}, nil, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := time.Duration(0)
			for _, s := range Stalls("f", c.records, c.runs, nil, at(200), time.Minute) {
				got = max(got, s.Length())
			}
			if got != c.want {
				t.Errorf("the longest is %s, want %s", got, c.want)
			}
		})
	}
}

func TestAStallMayBeAsLongAsTheFaultThatHaltsItsFlow(t *testing.T) {
	acts := []Act{
		{Kind: CutNode, From: at(10), To: at(50), Recovered: at(60), Flows: []string{"f", "g"}, Halts: []string{"f"}},
		{Kind: StopAPIServer, From: at(100), To: at(140), Recovered: at(141)},
	}
	cases := []struct {
		flow     string
		from, to float64
		during   []Kind
		allowed  time.Duration
	}{
		{"f", 12, 55, []Kind{CutNode}, 100 * time.Second},
		{"g", 12, 55, []Kind{CutNode}, time.Minute},
		{"f", 101, 130, []Kind{StopAPIServer}, time.Minute},
		{"f", 55, 105, []Kind{CutNode, StopAPIServer}, 100 * time.Second},
		{"f", 65, 95, nil, time.Minute},
	}
	for _, c := range cases {
		got := Stall{Flow: c.flow, From: at(c.from), To: at(c.to)}.judge(acts, time.Minute)
		if diff := cmp.Diff(c.during, got.During); diff != "" || got.Allowed != c.allowed {
			t.Errorf("%+v: during %v, allowed %s", c, got.During, got.Allowed)
		}
	}
}
