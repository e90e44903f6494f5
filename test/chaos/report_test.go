package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/test/prober"
)

// evidence is a small run in which everything is as it should be: ten jobs of one flow, and a worker whose app was killed.
type evidence struct {
	manifest Manifest
	acts     []Act
	books    map[string]map[string]prober.Record
	ledgers  map[string][]prober.Entry
}

func goodRun() *evidence {
	e := &evidence{
		manifest: Manifest{Seed: 1, Flows: []string{"f"}, Ended: at(100), Length: time.Minute, Grace: time.Minute, LeastRate: 0.1},
		acts:     []Act{{Kind: KillApp, From: at(4), To: at(4.1), Recovered: at(6), What: "w", Workers: []string{"w"}}},
		books:    map[string]map[string]prober.Record{"f": {}},
		ledgers:  map[string][]prober.Entry{},
	}
	for n := range uint64(10) {
		id := "job-" + string(rune('a'+n))
		from := float64(n + 1)
		e.books["f"][id] = prober.Record{
			SHA256: "hash", Accepted: true, SubmittedAt: at(from), AcceptedAt: at(from), State: prober.StateConfirmed, SettledAt: at(from + 10),
		}
		e.run("w", id, from, from+0.5, 204)
	}
	// The fourth was running when the app was killed, and ran again elsewhere.
	e.ledgers["w"][7].Status = 0
	e.ledgers["w"] = append(e.ledgers["w"][:7], e.ledgers["w"][8:]...)
	e.run("v", "job-d", 8, 8.5, 204)
	return e
}

func (e *evidence) run(worker, id string, from, to float64, status int) {
	n := uint64(len(e.ledgers[worker]) + 1)
	e.ledgers[worker] = append(e.ledgers[worker],
		prober.Entry{At: at(from), Boot: "b", Run: n, MessageID: id, Attempt: 1, SHA256: "hash"}, prober.Entry{At: at(to), Boot: "b", Run: n, Status: status})
}

func (e *evidence) change(id string, change func(*prober.Record)) {
	r := e.books["f"][id]
	change(&r)
	e.books["f"][id] = r
}

func TestTheJudgeFindsWhatIsWrong(t *testing.T) {
	cases := map[string]struct {
		spoil func(*evidence)
		want  string // empty: nothing is wrong
	}{
		"nothing": {func(*evidence) {}, ""},
		"a job that never ran and is confirmed": {
			func(e *evidence) { delete(e.ledgers, "v"); e.ledgers["w"] = e.ledgers["w"][:6] }, "accepted jobs are lost",
		},
		"a job that ran and was never confirmed": {
			func(e *evidence) { e.change("job-b", func(r *prober.Record) { r.State, r.SettledAt = "stored", 0 }) }, `was accepted and is "stored"`,
		},
		"a job that the intake does not know": {
			func(e *evidence) { e.change("job-b", func(r *prober.Record) { r.State = prober.StateVanished }) }, `was accepted and is "vanished"`,
		},
		"a claim of the prober": {
			func(e *evidence) {
				e.books["f"]["claimed"] = prober.Record{Accepted: true, AcceptedAt: at(3), State: prober.StateVanished, SettledAt: at(4)}
			}, "f: 1 accepted jobs are lost",
		},
		"a job that nobody submitted": {func(e *evidence) { e.run("w", "foreign", 20, 21, 204) }, "ran foreign, which nobody submitted"},
		"another content":             {func(e *evidence) { e.ledgers["w"][0].SHA256 = "other" }, "with another content"},
		"a duplicate for no reason":   {func(e *evidence) { e.run("v", "job-j", 50, 51, 204) }, "f: 1 runs are unexplained"},
		"a kill that nobody noted":    {func(e *evidence) { e.acts[0].Workers = nil }, "f: 1 runs are unexplained"},
		"two runs at once": {
			func(e *evidence) {
				e.ledgers["u"] = []prober.Entry{
					{At: at(30), Boot: "b", Run: 1, MessageID: "job-j", SHA256: "hash"}, {At: at(31), Boot: "b", Run: 2, MessageID: "job-j", SHA256: "hash"},
				}
			}, "twice at once",
		},
		"a stall": {
			func(e *evidence) {
				e.change("job-j", func(r *prober.Record) { r.SettledAt = at(95) })
				e.ledgers["w"] = e.ledgers["w"][:17]
				e.run("v", "job-j", 90, 90.5, 204)
			}, "nothing was done for",
		},
		"a fault that could not be carried out": {func(e *evidence) { e.acts[0].Faults = []string{"no worker is there"} }, "no worker is there"},
		"no fault at all":                       {func(e *evidence) { e.acts = nil }, "no fault was carried out"},
		"hardly any job":                        {func(e *evidence) { e.manifest.LeastRate = 5 }, "the run proves too little"},
		"a job that was not accepted":           {func(e *evidence) { e.books["f"]["z"] = prober.Record{SubmittedAt: at(1)} }, "were not accepted"},
		"something beside the jobs":             {func(e *evidence) { e.manifest.Wrong = []string{"a container ended by itself"} }, "ended by itself"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := goodRun()
			c.spoil(e)
			r := judge(e.manifest, e.acts, e.books, e.ledgers)
			text := strings.Join(r.Wrong, "\n")
			if (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
				t.Errorf("wrong is %q, want %q", text, c.want)
			}
			if !strings.Contains(r.Text(), c.want) {
				t.Errorf("the report does not say so:\n%s", r.Text())
			}
		})
	}
}

func TestAReportCounts(t *testing.T) {
	e := goodRun()
	r := judge(e.manifest, e.acts, e.books, e.ledgers)
	f := r.Flows[0]
	if f.Accepted != 10 || f.Confirmed != 10 || f.Effects != 10 || f.Lost != 0 || f.Runs != 11 || f.Reasons[ReasonWorkerKilled] != 1 || len(f.Reasons) != 1 {
		t.Errorf("%+v", f)
	}
	// The fourth job was accepted at 4 and done at 8.5, but others were done meanwhile.
	if r.Faults[KillApp] != 1 || r.LongestStall != 1.5 || r.Recovery[KillApp] < 1.89 || r.Recovery[KillApp] > 1.91 {
		t.Errorf("%+v", r)
	}
}

func TestARunIsJudgedFromItsFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ledgersDir), 0o755); err != nil {
		t.Fatal(err)
	}
	m := Manifest{Seed: 1, Flows: []string{"f"}, Length: time.Second, Grace: time.Minute, LeastRate: 1, Ended: prober.Now() + at(60)}
	if err := m.write(dir); err != nil {
		t.Fatal(err)
	}
	write := func(path string, lines ...any) {
		journal, err := prober.OpenJournal(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if err := journal.Append(func(prober.Moment) any { return line }); err != nil {
				t.Fatal(err)
			}
		}
		if err := journal.Close(); err != nil {
			t.Fatal(err)
		}
	}
	now := prober.Now()
	note := func(event prober.Event, state string) prober.Note {
		return prober.Note{At: now, Event: event, ID: "a", SHA256: "hash", State: state}
	}
	write(actsFile, Act{Kind: KillApp, From: now, To: now, Recovered: now, What: "w"})
	write(booksFile("f"), note(prober.Submitted, ""), note(prober.Accepted, ""), note(prober.Settled, prober.StateConfirmed))
	write(filepath.Join(ledgersDir, "w"+prober.LedgerSuffix),
		prober.Entry{At: now, Boot: "b", Run: 1, MessageID: "a", SHA256: "hash", Attempt: 1}, prober.Entry{At: now, Boot: "b", Run: 1, Status: 204})
	r, err := Judge(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Wrong) != 0 || len(r.Flows) != 1 || r.Flows[0].Confirmed != 1 || r.Flows[0].Effects != 1 {
		t.Errorf("%+v", r)
	}
}
