package pool

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func (b *workerBuilder) lease(state LeaseState) *workerBuilder { b.w.Lease = state; return b }
func (b *workerBuilder) unbound() *workerBuilder               { b.w.Unbound = true; return b }

func TestPlanOfLapsedWorkers(t *testing.T) {
	lapsed := func(name string) *workerBuilder { return make1(name).lease(LeaseExpired).unbound() }
	fresh := func(name string) *workerBuilder { return make1(name).lease(LeaseFresh) }
	told := func(s Snapshot) Snapshot { s.LeasesTell = true; return s }
	for name, c := range map[string]struct {
		snapshot Snapshot
		want     []string
	}{
		"neither renews nor has a binding":     {told(snapshotOf(2, lapsed("a"), fresh("b"))), []string{"Replace a"}},
		"one at a time":                        {told(snapshotOf(4, lapsed("a"), lapsed("b"), fresh("c"), fresh("d"))), []string{"Replace a"}},
		"bound":                                {told(snapshotOf(2, make1("a").lease(LeaseExpired), fresh("b"))), nil},
		"no binding, and a fresh Lease":        {told(snapshotOf(2, fresh("a").unbound(), fresh("b"))), nil},
		"no binding, and no Lease":             {told(snapshotOf(2, make1("a").unbound(), fresh("b"))), nil},
		"the Leases tell of the control plane": {snapshotOf(2, lapsed("a"), fresh("b")), nil},
		"it has not begun":                     {told(snapshotOf(2, lapsed("a").pending(), fresh("b"))), nil},
		"it goes already":                      {told(snapshotOf(1, lapsed("a").terminating(), fresh("b"))), []string{"Uncount a"}},
		"it drains":                            {told(snapshotOf(1, lapsed("a").marked(time.Second).draining(1), fresh("b"))), nil},
		"one too many: it leaves as others do": {told(snapshotOf(1, lapsed("a").unreachable(), fresh("b").busy(1))), []string{"Drain b"}},
		"in a rollout: it leaves as others do": {told(snapshotOf(2, lapsed("a").old().unready(), fresh("b"))), []string{"Release a"}},
		"none could take its place":            {func() Snapshot { s := told(snapshotOf(2, lapsed("a"), fresh("b"))); s.MayCreate = false; return s }(), nil},
	} {
		if got := steps(MakePlan(c.snapshot)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if p := MakePlan(c.snapshot); slices.Contains(c.want, "Replace a") && p.Create != 0 {
			t.Errorf("%s: %d workers are made before the lapsed one goes", name, p.Create)
		}
	}
}

// poolOfLeases are the Leases of a pool and a clock.
type poolOfLeases struct {
	book     leaseBook
	now      time.Time
	versions map[types.UID]string
}

const good = 80 * time.Second

// pass lets time pass in which the named workers renew their Leases at the end, and returns who has lapsed and whether that tells of them.
func (p *poolOfLeases) pass(d time.Duration, renewed ...types.UID) (expired []types.UID, tell bool) {
	p.now = p.now.Add(d)
	for _, uid := range renewed {
		p.versions[uid] += "+"
	}
	fresh := 0
	for _, uid := range []types.UID{"a", "b", "c"} {
		switch p.book.look(p.now, uid, p.versions[uid], good) {
		case LeaseExpired:
			expired = append(expired, uid)
		case LeaseFresh:
			fresh++
		default:
		}
	}
	return expired, p.book.judge(p.now, fresh, len(expired), good)
}

func TestLeasesAreJudgedByThisProcessClock(t *testing.T) {
	fresh := func() *poolOfLeases {
		return &poolOfLeases{
			leaseBook{seen: map[types.UID]leaseSeen{}}, time.Unix(1000, 0), map[types.UID]string{"a": "1", "b": "1", "c": "1"},
		}
	}
	all := []types.UID{"a", "b", "c"}
	type pass struct {
		after   time.Duration
		renewed []types.UID
		expired []types.UID
		tell    bool
	}
	for name, passes := range map[string][]pass{
		"a process that has just begun knows of nothing": {{0, nil, nil, false}, {good, nil, nil, false}},
		"one worker stops renewing": {
			{0, nil, nil, false}, {time.Minute, all, nil, false}, {time.Minute, []types.UID{"a", "b"}, nil, true},
			{time.Minute, []types.UID{"a", "b"}, []types.UID{"c"}, true},
		},
		"its renewal takes everything back": {
			{0, nil, nil, false}, {2 * time.Minute, []types.UID{"a", "b"}, []types.UID{"c"}, true}, {time.Second, []types.UID{"c"}, nil, true},
		},
		"all stop at once": {
			{0, nil, nil, false}, {2 * time.Minute, nil, all, false}, {time.Hour, nil, all, false},
		},
		"most stop at once": {
			{0, nil, nil, false}, {2 * time.Minute, []types.UID{"a"}, []types.UID{"b", "c"}, false},
		},
		"after an outage every worker has the time to renew": {
			{0, nil, nil, false}, {2 * time.Minute, nil, all, false}, {time.Second, []types.UID{"a", "b"}, []types.UID{"c"}, false},
			{time.Minute, []types.UID{"a", "b"}, []types.UID{"c"}, false}, {time.Minute, []types.UID{"a", "b"}, []types.UID{"c"}, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := fresh()
			for i, step := range passes {
				expired, tell := p.pass(step.after, step.renewed...)
				if !slices.Equal(expired, step.expired) || tell != step.tell {
					t.Errorf("look %d: %v has expired, which tells: %v; want %v, %v", i, expired, tell, step.expired, step.tell)
				}
			}
		})
	}
}

func TestALeaseThatPromisesNothingSaysNothing(t *testing.T) {
	b := leaseBook{seen: map[types.UID]leaseSeen{}}
	if got := b.look(time.Unix(0, 0), "a", "1", 0); got != LeaseUnknown {
		t.Errorf("without a duration: %q", got)
	}
	if got := b.look(time.Unix(0, 0), "a", "", good); got != LeaseUnknown {
		t.Errorf("without a Lease: %q", got)
	}
	b.look(time.Unix(0, 0), "a", "1", good)
	b.keep(nil)
	if len(b.seen) != 0 {
		t.Errorf("%v is remembered of pods that are gone", b.seen)
	}
}
