package trial

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStatus(t *testing.T) {
	whole := "Name:\tbench\nVmHWM:\t    40 kB\nVmRSS:\t    30 kB\nRssAnon:\t     8 kB\nRssFile:\t    20 kB\nRssShmem:\t     2 kB\n"
	for name, c := range map[string]struct {
		raw  string
		want Memory
		bad  bool
	}{
		"usual":        {raw: whole, want: Memory{Process: "p", Own: 8 << 10, Mapped: 20 << 10, Shared: 2 << 10, Peak: 40 << 10}},
		"a line less":  {raw: strings.Replace(whole, "RssFile", "Rss", 1), bad: true},
		"no number":    {raw: strings.Replace(whole, "20 kB", "x kB", 1), bad: true},
		"another unit": {raw: strings.Replace(whole, "20 kB", "20 MB", 1), bad: true},
		"nothing":      {bad: true},
	} {
		got, err := parseStatus("p", []byte(c.raw))
		if (err != nil) != c.bad {
			t.Errorf("%s: error %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMemoryOfThisProcess(t *testing.T) {
	m, err := memoryOf("test", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if m.Own == 0 || m.Peak < m.Own || m.Resident() != m.Own+m.Mapped {
		t.Errorf("this process has %+v", m)
	}
}
