package chaos

import (
	"testing"
	"time"

	"github.com/workpulling/workpulling/test/prober"
)

func at(seconds float64) prober.Moment { return prober.Moment(seconds * float64(time.Second)) }

// ran is a run of a worker that ended with a status.
func ran(worker string, from, to float64, status int) prober.Run {
	return prober.Run{Worker: worker, Attempt: 1, Began: at(from), Ended: at(to), Status: status}
}

func TestRerunsAreExplained(t *testing.T) {
	act := func(kind Kind, from, to float64, change func(*Act)) []Act {
		a := Act{Kind: kind, From: at(from), To: at(to)}
		change(&a)
		return []Act{a}
	}
	hits := func(workers ...string) func(*Act) { return func(a *Act) { a.Workers = workers } }
	of := func(flows ...string) func(*Act) { return func(a *Act) { a.Flows = flows } }
	cases := map[string]struct {
		before, run prober.Run
		acts        []Act
		want        Reason
	}{
		"no reason at all":             {ran("v", 100, 101, 204), ran("w", 102, 103, 204), nil, Unexplained},
		"it failed":                    {ran("v", 100, 101, 500), ran("w", 102, 103, 204), nil, ReasonFailed},
		"it took too long":             {ran("v", 100, 105, 204), ran("w", 104.1, 105, 204), nil, ReasonSlow},
		"it took long, but not enough": {ran("v", 100, 103, 204), ran("w", 104.1, 105, 204), nil, Unexplained},
		"its worker was killed": {
			ran("v", 100, 0, 0), ran("w", 110, 111, 204), act(KillApp, 100.5, 100.6, hits("v")), ReasonWorkerKilled,
		},
		"another worker was killed": {
			ran("v", 100, 0, 0), ran("w", 110, 111, 204), act(KillApp, 100.5, 100.6, hits("u")), Unexplained,
		},
		"its worker was killed long before": {
			ran("v", 100, 101, 204), ran("w", 110, 111, 204), act(KillApp, 60, 61, hits("v")), Unexplained,
		},
		"its worker was cut off": {
			ran("v", 100, 101, 204), ran("w", 115, 116, 204), act(CutNode, 90, 130, hits("v", "u")), ReasonNodeCutOff,
		},
		"the next one came back and went on": {
			ran("v", 100, 101, 204), ran("w", 131, 132, 204), act(CutNode, 90, 130, hits("w")), ReasonNodeCutOff,
		},
		"its producer was killed": {
			ran("v", 100, 101, 204), ran("w", 104, 105, 204), act(KillProducer, 101.1, 101.2, of("f")), ReasonProducerKilled,
		},
		"another producer was killed": {
			ran("v", 100, 101, 204), ran("w", 104, 105, 204), act(KillProducer, 101.1, 101.2, of("g")), Unexplained,
		},
		"another took over": {
			ran("v", 100, 101, 204), ran("w", 112, 113, 204), act(FenceProducer, 99, 120, of("f")), ReasonTakeover,
		},
		"its worker was forgotten by the cluster long ago, and ended some time": {
			ran("v", 500, 501, 204), ran("w", 512, 513, 204), act(RestoreEtcd, 99, 120, func(a *Act) { a.Orphans = []string{"v"} }), ReasonPast,
		},
		"the API server was away, which explains nothing": {
			ran("v", 100, 101, 204), ran("w", 112, 113, 204), act(StopAPIServer, 99, 120, func(a *Act) { a.Flows, a.Workers = []string{"f"}, []string{"v"} }), Unexplained,
		},
		"a node was drained, which explains nothing": {
			ran("v", 100, 101, 204), ran("w", 112, 113, 204), act(DrainNode, 99, 120, func(a *Act) { a.Flows = []string{"f"} }), Unexplained,
		},
		"it was submitted again, years later": {
			ran("v", 100, 101, 204), ran("w", 102+prober.DeduplicationWindow.Seconds(), 500, 204), nil, ReasonAgain,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Reruns("f", map[string][]prober.Run{"a": {c.before, c.run}}, c.acts)
			if len(got) != 1 || got[0].Reason != c.want {
				t.Errorf("got %v, want %q", got, c.want)
			}
		})
	}
}

func TestPastsKnowWhenSidecarsEnded(t *testing.T) {
	acts := []Act{{Kind: KillSidecar, To: at(10), Sidecars: []string{"w"}}, {Kind: KillApp, To: at(15), Workers: []string{"w"}}, {Kind: KillSidecar, To: at(20), Sidecars: []string{"w"}}}
	got := Pasts(acts)["w"].Sidecars
	want := []prober.Span{{To: at(10)}, {From: at(10), To: at(20)}, {From: at(20)}}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("lives %v, want %v", got, want)
	}
}
