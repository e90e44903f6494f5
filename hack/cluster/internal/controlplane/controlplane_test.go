package controlplane

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/workpulling/workpulling/hack/cluster/internal/component"
)

func TestAReservedPortIsNobodyElses(t *testing.T) {
	first, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	second, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer second.close()
	if first.number == second.number {
		t.Errorf("both got %d", first.number)
	}
	if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first.number)); err == nil {
		l.Close()
		t.Error("somebody else could listen there")
	}
}

func TestAnAbandonedDirectoryIsRemovedByTheNext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	abandoned, err := newTempDir()
	if err != nil {
		t.Fatal(err)
	}
	abandoned.lock.Close() // as the kernel does for a process that was killed
	inUse, err := newTempDir()
	if err != nil {
		t.Fatal(err)
	}
	unfinished := filepath.Join(os.TempDir(), tempPattern+"unfinished")
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		t.Fatal(err)
	}
	third, err := newTempDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned.path); !os.IsNotExist(err) {
		t.Errorf("the abandoned one is still there: %v", err)
	}
	for _, dir := range []string{inUse.path, unfinished, third.path} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	third.remove()
	if _, err := os.Stat(third.path); !os.IsNotExist(err) {
		t.Errorf("removed, but still there: %v", err)
	}
	inUse.lock.Close()
}

func TestAProcessThatEndsIsExplainedByItsLog(t *testing.T) {
	dir := t.TempDir()
	p, err := start(component.Component{Name: "doomed", Args: []string{"sh", "-c", "echo the reason; exit 3"}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if text := p.failure().Error(); !strings.Contains(text, "doomed ended: exit status 3") || !strings.Contains(text, "the reason") {
		t.Error(text)
	}
	if _, err := start(component.Component{Name: "absent", Args: []string{"/no/such/program"}}, dir); err == nil {
		t.Error("a program that is not there was started")
	}
	long, err := start(component.Component{Name: "long", Args: []string{"sleep", "600"}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	long.stop()
	long.stop() // once more does no harm
}
